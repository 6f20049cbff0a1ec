// What of its job a step has. A launcher plans for all GPUs of the job.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

struct StepShare {
  std::vector<std::string> nodes;  // empty: Slurm does not tell
  std::string gpus;                // on this node, as in "0,2-3"; empty: Slurm does not tell
  bool bound = false;              // Slurm binds its tasks to GPUs, so that each sees only its own
};

// Of this process's step, by its environment.
StepShare share_of_step();

// What the step lacks of the GPUs that its job holds, in words; empty: nothing, as far as Slurm tells. `node`: this
// one. Pure.
std::string lack_of(const StepShare& step, const std::vector<Holding>& held, const std::string& node);

}  // namespace espalier::launcher
