#include "torchrt/layout.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

Layout make_layout(const Plan& plan, int layers) {
  const std::vector<std::string> broken = validate(plan, layers);
  if (!broken.empty()) throw Error("plan: " + broken.front());
  for (const Stage& stage : plan.stages)
    if (stage.tp != 1)
      throw Error("plan: a stage has tensor-parallel degree " + std::to_string(stage.tp) +
                  "; this runtime runs pipeline and data parallelism, use TP 1");
  Layout layout;
  layout.micro_batches = plan.micro_batches;
  layout.micro_batch = plan.micro_batch();
  layout.units = layers + 2;
  int next_unit = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    RankLayout rank;
    rank.stage = static_cast<int>(s);
    rank.first_stage = s == 0;
    rank.last_stage = s + 1 == plan.stages.size();
    const int count = stage.layers + (rank.first_stage ? 1 : 0) + (rank.last_stage ? 1 : 0);
    for (int i = 0; i < count; ++i) rank.units.push_back(next_unit++);
    layout.stage_ranks.emplace_back();
    for (const Replica& replica : stage.replicas) {
      rank.samples = replica.share;
      layout.stage_ranks.back().push_back(static_cast<int>(layout.ranks.size()));
      layout.ranks.push_back(rank);
      rank.first_sample += replica.share;
      ++rank.replica;
    }
  }
  ESPALIER_INVARIANT(next_unit == layout.units);
  return layout;
}

}  // namespace espalier::torchrt
