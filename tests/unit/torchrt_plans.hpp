// Short notation for plans in the runtime's tests.
#pragma once

#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

struct ShortReplica {
  int share;
  std::string node;
  int index;
};

// Stages of replicas. Layers are as even as possible; the first stages take the remainders.
inline Plan short_plan(const std::vector<std::vector<ShortReplica>>& stages, int layers, int micro_batches,
                       int micro_batch) {
  Plan plan;
  plan.micro_batches = micro_batches;
  plan.global_batch = micro_batches * micro_batch;
  const int count = static_cast<int>(stages.size());
  for (int s = 0; s < count; ++s) {
    Stage stage;
    stage.layers = layers / count + (s < layers % count ? 1 : 0);
    for (const ShortReplica& replica : stages[static_cast<std::size_t>(s)])
      stage.replicas.push_back({replica.share, {{replica.node, replica.index}}});
    plan.stages.push_back(stage);
  }
  return plan;
}

// A pipeline of one GPU per stage.
inline Plan pipeline_of(const std::vector<std::pair<std::string, int>>& gpus, int layers = 8, int micro_batches = 4,
                        int micro_batch = 2) {
  std::vector<std::vector<ShortReplica>> stages;
  for (const auto& [node, index] : gpus) stages.push_back({{micro_batch, node, index}});
  return short_plan(stages, layers, micro_batches, micro_batch);
}

}  // namespace espalier::torchrt
