// What passes in a job's life beside training and waiting for GPUs: Slurm's part and the programs'.
#pragma once

#include "planner/sim/slurm_preemption.hpp"

namespace espalier::sim {

// Seconds. The defaults are none: what matters to hours does not; a replay of minutes needs them.
struct Delays {
  double queue_seconds = 0;        // from a job's submission until Slurm starts it where nothing keeps it waiting
  double batch_sched_seconds = 0;  // between two looks of Slurm at new jobs; at what was released it looks besides
  double release_seconds = 0;      // from the end of a job or an extension until Slurm starts who waited for its GPUs
  double acquire_seconds = 0;      // from a decision until Slurm has granted its extensions; the job trains
  double launch_seconds = 0;       // from a job's start to its first step; its GPUs are held
  double end_seconds = 0;          // from a job's last step to its end, likewise
  // How Slurm itself preempts extensions for the first waiting job, as soon as it has looked at it; the planner asks
  // for others only when that did not help. A growth that was to use one of them is given up.
  Preemption preempt = Preemption::none;
  bool operator==(const Delays&) const = default;
};

}  // namespace espalier::sim
