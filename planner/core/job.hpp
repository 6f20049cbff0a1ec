// The planner's data about one elastic job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/model/profile.hpp"
#include "planner/core/model_shape.hpp"
#include "planner/core/parallel_limits.hpp"
#include "planner/core/plan.hpp"

namespace espalier {

using JobId = std::uint32_t;  // Slurm's

// bitwise: only plans that keep every loss and weight bit-identical. The TP degree stays the one
// that the user chose (1 without a choice); all else may change. Gradients are summed as integers,
// which costs time and memory.
// relaxed: everything may change. Gradients are summed in the order in which they arrive.
enum class Accuracy { bitwise, relaxed };

// How training state moves from one generation to the next (Suika Fig. 14b).
// adopt: state that stays on its GPU is mapped, not copied.
// device: like adopt, but state that stays on its GPU is copied too.
// overlap: state goes through a checkpoint on disk. The next generation starts while the old one
// still trains.
// checkpoint: like overlap, but the next generation starts only after the old one has ended.
enum class HandoffMethod { adopt, device, overlap, checkpoint };
constexpr bool through_disk(HandoffMethod method) {
  return method == HandoffMethod::overlap || method == HandoffMethod::checkpoint;
}

// The launcher's state, in the order of a reconfiguration.
// `recovering`: the running generation was lost. Another generation starts on the remaining GPUs.
// `saving` and `restarting`: they replace `starting` to `committed` where the hand-off method is
// `checkpoint`.
// `replanning`: the running generation goes on with another plan in which all state stays where it is.
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
  replanning,
  ending
};

// GPUs that one Slurm job holds on one node.
struct Holding {
  JobId job = 0;
  std::string node;
  std::vector<int> gpus;  // GRES indices
  bool operator==(const Holding&) const = default;
};

// By "node/job" (islands_key): of the GPUs that a Slurm job has on a node, in the order of Slurm's indices, those with
// the same number reach each other's memory. Not there: all do, or no rank has run there.
using GpuIslands = std::map<std::string, std::vector<int>>;
std::string islands_key(const std::string& node, JobId job);

struct ElasticJob {
  JobId id = 0;
  std::uint32_t uid = 0;
  std::string name;
  int min_gpus = 0, max_gpus = 0;
  // MIN of --elastic, if the user gave it: no plan has fewer GPUs. 0: the user gave none.
  int floor_gpus = 0;
  double deadline = 0;  // of --elastic, seconds since the epoch; 0: none
  Accuracy accuracy = Accuracy::bitwise;
  ModelShape model;          // layers == 0: not reported yet
  ParallelLimits parallel;   // the user's
  std::optional<Plan> plan;  // of the committed generation
  int generation = 0;
  bool ranks_run = false;  // while launching: generation 0 has a rank on each GPU already
  JobPhase phase = JobPhase::launching;
  std::vector<Holding> anchor;      // basic demand; the planner never takes it away
  std::vector<Holding> extensions;  // expansive demand
  double step_seconds = 0;          // measured on `plan`; 0: not measured yet
  std::int64_t step = 0;            // last completed step
  std::int64_t total_steps = 0;
  bool held = false;               // by `espalier hold`: no growth
  std::optional<Profile> profile;  // the newest profile of `plan`
  // The job's workers died repeatedly on these GPUs, or they have errors; it should get other GPUs.
  std::vector<GpuId> unfit;
  GpuIslands gpu_islands;  // as its ranks have said
  // Its ranks use no GPU memory, and said so. Those in two of its Slurm jobs on one node then reach each other without
  // the network.
  bool jobs_reach = false;
};

}  // namespace espalier
