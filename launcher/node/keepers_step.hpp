// The step that holds the keepers of a base's other nodes. The keeper in the base's batch script starts it by srun.
#pragma once

#include <thread>

#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

// Said by a keeper of the step when it runs, for KeepersStep.
void say_kept();

// Starts the step, and ends its srun when all keepers have said that they run: the step goes on without. A live srun
// would end the keepers where it gets SIGTERM, which scancel --full sends to it, or is killed. (Tried on 22.05: srun
// sends SIGKILL to its tasks on SIGTERM. A second process of srun, its child, cancels the step when srun is killed.
// When both are killed, the child first, the tasks live on.)
class KeepersStep {
 public:
  // Does nothing where the base has one node. Says so on standard error if srun cannot be started.
  explicit KeepersStep(const JobContext& context);

 private:
  std::jthread srun_;  // owns the process; leaves it alive when this ends, for what ends the job's processes
};

}  // namespace espalier::launcher
