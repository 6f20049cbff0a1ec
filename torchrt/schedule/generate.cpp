#include <algorithm>

#include "planner/core/error.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

namespace {

struct Work {
  bool forward;
  int micro_batch;
};

// How many micro-batches a stage takes in before its first backward decides the whole schedule.
std::vector<Work> order_of_work(int micro_batches, int warm_up) {
  std::vector<Work> order;
  int next_forward = 0;
  for (; next_forward < std::min(warm_up, micro_batches); ++next_forward) order.push_back({true, next_forward});
  for (int next_backward = 0; next_backward < micro_batches; ++next_backward) {
    if (next_forward < micro_batches) order.push_back({true, next_forward++});
    order.push_back({false, next_backward});
  }
  return order;
}

// Transfers between a rank and the ranks of a neighbour stage: one for each that shares samples with it.
void add_transfers(std::vector<Op>& ops, OpKind kind, int micro_batch, const RankLayout& self, const Layout& layout,
                   int neighbour_stage) {
  if (neighbour_stage < 0 || neighbour_stage >= static_cast<int>(layout.stage_ranks.size())) return;
  for (const int peer : layout.stage_ranks[neighbour_stage]) {
    const RankLayout& other = layout.ranks[peer];
    const int first = std::max(self.first_sample, other.first_sample);
    const int last = std::min(self.first_sample + self.samples, other.first_sample + other.samples);
    if (first < last) ops.push_back({kind, micro_batch, -1, peer, first, last - first});
  }
}

}  // namespace

Schedule make_schedule(const Layout& layout, const std::string& name) {
  if (name != "1f1b" && name != "gpipe")
    throw Error("schedule: \"" + name + "\" is unknown; known are \"1f1b\" and \"gpipe\"");
  Schedule schedule{layout, std::vector<std::vector<Op>>(layout.ranks.size())};
  const int stages = static_cast<int>(layout.stage_ranks.size());
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    const RankLayout& self = layout.ranks[r];
    std::vector<Op>& ops = schedule.ranks[r];
    const int warm_up = name == "gpipe" ? layout.micro_batches : stages - 1 - self.stage;
    for (const Work& work : order_of_work(layout.micro_batches, warm_up)) {
      const int m = work.micro_batch;
      if (work.forward) {
        add_transfers(ops, OpKind::receive_activation, m, self, layout, self.stage - 1);
        ops.push_back({OpKind::forward, m});
        add_transfers(ops, OpKind::send_activation, m, self, layout, self.stage + 1);
      } else {
        add_transfers(ops, OpKind::receive_gradient, m, self, layout, self.stage + 1);
        ops.push_back({OpKind::backward, m});
        add_transfers(ops, OpKind::send_gradient, m, self, layout, self.stage - 1);
      }
    }
    if (layout.stage_ranks[self.stage].size() > 1)
      for (auto unit = self.units.rbegin(); unit != self.units.rend(); ++unit)
        ops.push_back({OpKind::reduce, -1, *unit});
    ops.push_back({OpKind::agree});
    for (const int unit : self.units) ops.push_back({OpKind::update, -1, unit});
  }
  return schedule;
}

}  // namespace espalier::torchrt
