// What `espalier plan` found, and the three forms in which it says so. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/cli/plan_cluster_file.hpp"
#include "planner/cli/plan_search.hpp"
#include "planner/cli/record.hpp"

namespace espalier::cli {

struct PlanReport {
  PlanJob job;
  std::string cluster;
  Site site;
  std::vector<std::string> notes;  // of the cluster: what was assumed or left out
  PlanCoefficients coefficients;
  std::vector<PlannedCount> plans;

  double tokens_per_second(const PlannedCount& planned) const {
    return static_cast<double>(job.shape.global_batch) * job.shape.sequence / planned.seconds();
  }
  const PlannedCount& base() const;  // the first count that has a plan
  // Against it: how many times faster, and that per GPU.
  double speedup(const PlannedCount& planned) const;
  double efficiency(const PlannedCount& planned) const;
};

// Of the memory that a plan may fill, on the GPU that is fullest.
double memory_share(const StagePrediction& stage);
double memory_share(const PlannedCount& planned);

// For people, at most 100 columns wide where names are short: the job, the cluster and what is assumed; a line for each
// count.
std::string plan_table(const PlanReport& report);
// One plan: for each stage a row with its layers, GPUs, a bar of what they do in a step, and their memory; and its
// times.
std::string plan_drawing(const PlannedCount& planned);
std::string drawing_legend(double usable_memory);  // Hardware::memory_share

Record plan_record(const PlanReport& report, const PlannedCount& planned);
Json plan_json(const PlanReport& report);

}  // namespace espalier::cli
