#include "torchrt/schedule/tied.hpp"

#include <algorithm>

namespace espalier::torchrt {

namespace {

// The share of `rows` that replica `sender` of `senders` sends to replica `receiver` of
// `receivers`. The rows for all receivers, one receiver after the other, are cut into equal parts
// for the senders.
Range share_of(Range rows, int senders, int sender, int receivers, int receiver) {
  const std::int64_t all = rows.count * receivers, first = all * sender / senders;
  const Range wanted{rows.count * receiver, rows.count};
  const Range common = intersection({first, all * (sender + 1) / senders - first}, wanted);
  return {rows.first + common.first - wanted.first, common.count};
}

struct End {
  const StageLayout& stage;
  int unit;
};

// One rank's transfers, for the rows of a block, between the copies at `self` and `other`.
class Exchange {
 public:
  Exchange(const RankLayout& rank, const End& self, const End& other, std::int64_t rows)
      : rank_(rank), self_(self), other_(other), rows_(rows) {}

  void add(std::vector<Op>& ops, OpKind kind, Range block) const {
    const Range own = intersection(table_rows(rows_, rank_.tp, rank_.tp_rank), block);
    for (int t = 0; t < other_.stage.tp; ++t) {
      const Range common = intersection(own, table_rows(rows_, other_.stage.tp, t));
      for (int j = 0; common.count > 0 && j < other_.stage.replicas; ++j) {
        const bool sends = kind == OpKind::send_tied;
        const Range rows = sends ? share_of(common, self_.stage.replicas, rank_.replica, other_.stage.replicas, j)
                                 : share_of(common, other_.stage.replicas, j, self_.stage.replicas, rank_.replica);
        if (rows.count > 0)
          ops.push_back({kind, -1, self_.unit, other_.stage.rank(j, t), static_cast<int>(rows.first),
                         static_cast<int>(rows.count)});
      }
    }
  }

 private:
  const RankLayout& rank_;
  End self_, other_;
  std::int64_t rows_;
};

}  // namespace

std::vector<Op> tied_operations(const Layout& layout, const ScheduleOptions& options, int rank) {
  std::vector<Op> ops;
  const RankLayout& self = layout.ranks[static_cast<std::size_t>(rank)];
  const End front{layout.stage_of_unit(0), 0}, back{layout.stage_of_unit(layout.units - 1), layout.units - 1};
  std::vector<Exchange> exchanges;
  if (self.has_embedding) exchanges.emplace_back(self, front, back, options.tied_rows);
  if (self.has_head) exchanges.emplace_back(self, back, front, options.tied_rows);
  if (exchanges.empty()) return ops;
  for (int first = 0; first < options.tied_rows; first += options.tied_block_rows) {
    const Range block{first, std::min(options.tied_block_rows, options.tied_rows - first)};
    for (const OpKind kind : {OpKind::send_tied, OpKind::receive_tied, OpKind::add_tied})
      for (const Exchange& exchange : exchanges) exchange.add(ops, kind, block);
  }
  return ops;
}

}  // namespace espalier::torchrt
