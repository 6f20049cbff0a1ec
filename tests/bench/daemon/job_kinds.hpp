// The jobs of the cluster: those of Suika Tab. 1 that fit on one node, with the plan that they start on and a profile
// of it.
#pragma once

#include <random>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::bench {

struct JobKind {
  ModelShape model;
  int gpus = 0;
  Plan plan;  // on GPUs 0, 1, ... of node ""
  double step_seconds = 0;
  Profile profile;
};

std::vector<JobKind> job_kinds();
// Small ones most of the time: 3 GPUs in the mean.
const JobKind& random_kind(const std::vector<JobKind>& kinds, std::mt19937& random);
// The plan on these GPUs, in their order.
Plan placed(const Plan& plan, const std::vector<Holding>& holdings);
// What the job would report of `plan`, which has run for some steps.
Profile profile_on(const JobKind& kind, const Plan& plan, std::int64_t step);

}  // namespace espalier::bench
