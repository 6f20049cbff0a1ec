// What passes in a job's life beside training and waiting for GPUs: Slurm's part and the programs'.
#pragma once

namespace espalier::sim {

// Seconds. The defaults are none: what matters to hours does not; a replay of minutes needs them.
struct Delays {
  double queue_seconds = 0;    // from a job's submission until Slurm starts it where nothing keeps it waiting
  double release_seconds = 0;  // from the end of a job or an extension until Slurm starts who waited for its GPUs
  double acquire_seconds = 0;  // from a decision until Slurm has granted its extensions; the job trains
  double launch_seconds = 0;   // from a job's start to its first step; its GPUs are held
  double end_seconds = 0;      // from a job's last step to its end, likewise
  // Slurm preempts an extension for a waiting job at once where its job has not changed over to it yet: that growth
  // comes to nothing. Otherwise whoever waits, waits for the change and one back.
  bool preempt_growing = false;
  bool operator==(const Delays&) const = default;
};

}  // namespace espalier::sim
