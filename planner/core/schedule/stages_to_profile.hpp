// Which plans, and which of their stages, are profiled for a job that still waits (Arena §3.3): on GPUs of one type,
// each stage alone on one GPU. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

struct StageToProfile {
  int stage = 0, replica = 0;  // `replica`: the first of those with the largest share
  bool operator==(const StageToProfile&) const = default;
};

struct PlanToProfile {
  Plan plan;                           // on GPUs of the site, all of one type
  std::vector<StageToProfile> stages;  // those that differ, each once
};

// The stages of `plan` that differ in what one GPU does for a micro-batch: in the model's ends that they hold, their TP
// degree and their largest share. The first and the last stage come first. At most `most`.
std::vector<StageToProfile> distinct_stages(const Plan& plan, std::size_t most);

// The fastest plans, by `coefficients`, on several numbers of GPUs of `type`: on the job's own number (job.min_gpus),
// on the most that it may have (job.max_gpus), then on doublings in between; on all GPUs of the type where there are
// fewer. At most `most_stages` stages altogether. Empty: no plan fits on GPUs of this type. Throws Error when the site
// has no such GPUs. Needs job.model.
std::vector<PlanToProfile> plans_to_profile(const ElasticJob& job, const Site& site,
                                            const JobCoefficients& coefficients, const std::string& type,
                                            std::size_t most_stages);

// The plan without the names of its GPUs: layers, TP degree, and share and GPU types of each replica; equal neighbours
// once. "2 micro-batches | 5 layers tp1 2@h100 x2 | 3 layers tp1 2@a100". Two plans with the same text take the same
// time where their nodes are connected alike. A text of more than 400 bytes ends in its checksum.
std::string plan_form(const Plan& plan, const Site& site);

}  // namespace espalier
