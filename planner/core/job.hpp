// What the planner knows of one elastic job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/model/profile.hpp"
#include "planner/core/model_shape.hpp"
#include "planner/core/plan.hpp"

namespace espalier {

using JobId = std::uint32_t;  // Slurm's

// bitwise: only plans that keep every loss and weight bit-identical: all may change but TP degree and micro-batches;
// gradients are summed as integers, which costs time and memory. relaxed: all may change, sums are made as they come.
enum class Accuracy { bitwise, relaxed };

// How training state gets from one generation to the next (Suika Fig. 14b). adopt: what stays on its GPU is mapped, not
// copied. device: it is copied, and nothing else differs. overlap: by a checkpoint on disk, the next generation
// starting beside training. checkpoint: likewise, and only when the old generation has ended does the next one start.
enum class HandoffMethod { adopt, device, overlap, checkpoint };
constexpr bool through_disk(HandoffMethod method) {
  return method == HandoffMethod::overlap || method == HandoffMethod::checkpoint;
}

// Launcher's state, in the order of a reconfiguration.
// `recovering`: the running generation was lost, another starts on what is left.
// `saving` and `restarting`: in the place of starting to committed where the hand-off method is `checkpoint`.
enum class JobPhase {
  launching,
  running,
  acquiring,
  starting,
  ready,
  switching,
  committed,
  recovering,
  saving,
  restarting,
  ending
};

// GPUs that one Slurm job holds on one node.
struct Holding {
  JobId job = 0;
  std::string node;
  std::vector<int> gpus;  // GRES indices
  bool operator==(const Holding&) const = default;
};

struct ElasticJob {
  JobId id = 0;
  std::uint32_t uid = 0;
  std::string name;
  int min_gpus = 0, max_gpus = 0;
  Accuracy accuracy = Accuracy::bitwise;
  ModelShape model;          // layers == 0: not reported yet
  std::optional<Plan> plan;  // of the committed generation
  int generation = 0;
  JobPhase phase = JobPhase::launching;
  std::vector<Holding> anchor;      // basic demand, never taken away
  std::vector<Holding> extensions;  // expansive demand
  double step_seconds = 0;          // measured on `plan`; 0: not yet
  std::int64_t step = 0;            // last completed
  std::int64_t total_steps = 0;
  bool held = false;               // by `espalier hold`: no growth
  std::optional<Profile> profile;  // the newest one of `plan`
  std::vector<GpuId> unfit;        // where workers of it died again and again: it is to be given others
};

}  // namespace espalier
