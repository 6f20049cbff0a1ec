// Plans of every kind for the tests of schedules.
#pragma once

#include <random>

#include "planner/core/in_chunks.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// The plan with its stages cut into one to three chunks, that go round the stages or as a V.
inline Plan any_chunks(std::mt19937& random, Plan plan) {
  ParallelLimits limits;
  limits.chunks = 1 + static_cast<int>(random() % 3);
  limits.v_shaped = limits.chunks == 2 && random() % 2 == 0;
  return in_chunks(std::move(plan), limits);
}

// Uneven layers and shares. DP and TP degrees differ from stage to stage. At most `most_stages`
// stages.
inline Plan any_plan(std::mt19937& random, int layers, int most_stages = 4) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  Plan plan;
  plan.micro_batches = pick(1, 6);
  const int micro_batch = pick(1, 7);
  plan.global_batch = plan.micro_batches * micro_batch;
  const int stages = pick(1, std::min(layers, most_stages));
  for (int s = 0; s < stages; ++s) {
    Stage stage;
    stage.layers =
        s + 1 < stages ? pick(1, layers - plan.total_layers() - (stages - s - 1)) : layers - plan.total_layers();
    stage.tp = 1 << pick(0, 2);
    const int replicas = pick(1, std::min(4, micro_batch));
    int left = micro_batch;
    for (int j = 0; j < replicas; ++j) {
      Replica replica;
      replica.share = j + 1 < replicas ? pick(1, left - (replicas - j - 1)) : left;
      left -= replica.share;
      const std::string node = "n" + std::to_string(s) + "-" + std::to_string(j);
      for (int t = 0; t < stage.tp; ++t) replica.gpus.push_back({node, t});
      stage.replicas.push_back(std::move(replica));
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

inline ScheduleOptions any_options(std::mt19937& random) {
  ScheduleOptions options;
  options.name = random() % 2 == 0 ? "1f1b" : "gpipe";
  options.zero1 = random() % 2 == 0;
  options.tied_rows = random() % 3 == 0 ? 0 : 5 + static_cast<int>(random() % 60);
  options.tied_block_rows = random() % 2 == 0 ? 1 << 20 : 7;
  return options;
}

}  // namespace espalier::torchrt
