// From Slurm's snapshot and what launchers say to the scheduler's input. Pure. Launchers are users' processes: a GPU or
// an extension that Slurm does not confirm is left out.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "planner/core/scheduler.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// What stays the same from one decision to the next.
struct PlanningContext {
  int max_gpus = 64;                 // of one job
  std::string partition;             // of extensions
  std::shared_ptr<const Site> site;  // of the snapshot's nodes; null: unknown hardware
};

// `job` with only those GPUs and extensions that Slurm confirms for it, and within the site's limits.
ElasticJob confirmed(const ElasticJob& job, const SlurmSnapshot& slurm, int max_gpus);

// Jobs without a connected launcher, with an open decision, being preempted or with a failure a moment
// ago are not offered for a change;
// GPUs promised to an open growth count as taken, GPUs of an open shrink as about to be idle.
PlanningInput make_input(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs, Trigger trigger,
                         const PlanningContext& context);

}  // namespace espalier
