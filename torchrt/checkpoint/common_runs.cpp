#include "torchrt/checkpoint/common_runs.hpp"

namespace espalier::torchrt {

bool overlap(const ShardPart& a, const ShardPart& b) {
  if (intersection(a.columns, b.columns).count == 0) return false;
  for (const Range& rows : *a.rows)
    for (const Range& others : *b.rows)
      if (intersection(rows, others).count != 0) return true;
  return false;
}

std::int64_t each_common_run(const ShardPart& from, const ShardPart& to,
                             const std::function<void(const CommonRun&)>& visit) {
  const Range columns = intersection(from.columns, to.columns);
  std::int64_t common_elements = 0;
  CommonRun run;  // not visited yet
  const auto add = [&](const CommonRun& next) {
    common_elements += next.count;
    if (run.count > 0 && next.from == run.from + run.count && next.to == run.to + run.count) {
      run.count += next.count;
      return;
    }
    if (run.count > 0) visit(run);
    run = next;
  };
  // Both row positions count within their own shard.
  std::int64_t from_row = 0;
  for (const Range& rows : *from.rows) {
    std::int64_t to_row = 0;
    for (const Range& others : *to.rows) {
      const Range common = intersection(rows, others);
      for (std::int64_t row = common.first; row < common.end(); ++row) {
        const std::int64_t from_start =
            (from_row + row - rows.first) * from.columns.count + columns.first - from.columns.first;
        const std::int64_t to_start =
            (to_row + row - others.first) * to.columns.count + columns.first - to.columns.first;
        // The row's common columns that lie in both parts.
        const Range here =
            intersection({0, columns.count}, intersection({from.elements.first - from_start, from.elements.count},
                                                          {to.elements.first - to_start, to.elements.count}));
        if (here.count == 0) continue;
        add({from_start + here.first - from.elements.first, to_start + here.first - to.elements.first, here.count});
      }
      to_row += others.count;
    }
    from_row += rows.count;
  }
  if (run.count > 0) visit(run);
  return common_elements;
}

}  // namespace espalier::torchrt
