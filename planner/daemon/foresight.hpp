// What the cluster would look like if a waiting job started now. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/daemon/slurm.hpp"

namespace espalier {

struct Foresight {
  SlurmSnapshot slurm;       // the job runs on `own`; who held these GPUs has ended
  std::vector<Holding> own;  // what it was submitted for
};

// `waiting` on GPUs of `type`: on nodes that it may have, those with most idle GPUs first. GPUs of its profile jobs
// count as idle. `alone`: all other jobs have ended, too. nullopt: there are not enough such GPUs, whoever has them.
std::optional<Foresight> if_it_started(const SlurmSnapshot& slurm, JobId waiting, const std::string& type,
                                       bool alone = false);

}  // namespace espalier
