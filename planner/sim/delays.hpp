// Delays in a job's life other than training and waiting for GPUs. They come from Slurm and from
// the job's programs.
#pragma once

#include <optional>

#include "planner/sim/slurm_preemption.hpp"

namespace espalier::sim {

// In seconds. The defaults are 0: delays of seconds do not matter over hours, but a replay of
// minutes needs them.
struct Delays {
  // From a job's submission until Slurm starts it, if it need not wait for GPUs.
  double queue_seconds = 0;
  // Time between two looks of Slurm at new jobs. Slurm looks at released GPUs independently of
  // this.
  double batch_sched_seconds = 0;
  // From the end of a job or an extension until Slurm starts a job that waited for its GPUs.
  double release_seconds = 0;
  // From a decision until Slurm has granted its extensions. The job trains meanwhile.
  double acquire_seconds = 0;
  double launch_seconds = 0;  // from a job's start to its first step; it holds its GPUs
  double end_seconds = 0;     // from a job's last step to its end; it holds its GPUs
  // How Slurm itself preempts extensions for the first waiting job, as soon as it has looked at
  // that job. The planner reclaims other extensions only if that did not help. A growth that was to
  // use a preempted extension is given up. nullopt: oldest under QueueOrder::slurm, else none.
  std::optional<Preemption> preempt;
  bool operator==(const Delays&) const = default;
};

}  // namespace espalier::sim
