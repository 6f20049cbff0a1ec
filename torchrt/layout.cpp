#include "torchrt/layout.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

Layout make_layout(const Plan& plan, int layers) {
  const std::vector<std::string> broken = validate(plan, layers);
  if (!broken.empty()) throw Error("plan: " + broken.front());
  Layout layout;
  layout.micro_batches = plan.micro_batches;
  layout.micro_batch = plan.micro_batch();
  layout.units = layers + 2;
  int next_unit = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    RankLayout rank;
    rank.stage = static_cast<int>(s);
    rank.replicas = static_cast<int>(stage.replicas.size());
    rank.tp = stage.tp;
    rank.first_stage = s == 0;
    rank.last_stage = s + 1 == plan.stages.size();
    const int count = stage.layers + (rank.first_stage ? 1 : 0) + (rank.last_stage ? 1 : 0);
    for (int i = 0; i < count; ++i) rank.units.push_back(next_unit++);
    layout.stages.push_back({static_cast<int>(layout.ranks.size()), rank.replicas, rank.tp});
    for (const Replica& replica : stage.replicas) {
      rank.samples = replica.share;
      for (rank.tp_rank = 0; rank.tp_rank < rank.tp; ++rank.tp_rank) layout.ranks.push_back(rank);
      rank.first_sample += replica.share;
      ++rank.replica;
    }
  }
  ESPALIER_INVARIANT(next_unit == layout.units);
  return layout;
}

const StageLayout& Layout::stage_of_unit(int unit) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const StageLayout& stage) {
    return ranks[static_cast<std::size_t>(stage.first_rank)].units.back() >= unit;
  });
  ESPALIER_INVARIANT(found != stages.end());
  return *found;
}

Range table_rows(std::int64_t rows, int tp, int tp_rank) {
  const std::int64_t first = rows * tp_rank / tp;
  return {first, rows * (tp_rank + 1) / tp - first};
}

}  // namespace espalier::torchrt
