// What Slurm says of the nodes of a lost generation.
#pragma once

#include <set>
#include <string>

#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

struct SlurmAnswer {
  std::set<JobId> closing;          // extensions where it starts no step any more
  std::set<std::string> withdrawn;  // nodes of the anchor that it has taken from the job: they are down
  std::string away;                 // why there is no answer
  bool requeued = false;            // the job, a movable one: another launcher goes on
};

// Asks about the extensions among `jobs`, and about the anchor if it is among them. Blocks.
SlurmAnswer ask_slurm(const JobContext& context, const std::set<JobId>& jobs);

}  // namespace espalier::launcher
