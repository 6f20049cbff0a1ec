// The result of `espalier plan`, and its three forms of output. Pure.
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
  std::vector<std::string> notes;  // on the cluster's assumed values, and on a doubtful measurement
  PlanCoefficients coefficients;
  std::vector<PlannedCount> plans;

  double tokens_per_second(const PlannedCount& planned) const {
    return static_cast<double>(job.shape.global_batch) * job.shape.sequence / planned.seconds();
  }
  const PlannedCount& base() const;  // the first count that has a plan
  // In comparison with base(): the factor of speed, and that factor per GPU.
  double speedup(const PlannedCount& planned) const;
  double efficiency(const PlannedCount& planned) const;
};

// Share of the usable memory that the plan fills, on the fullest GPU.
double memory_share(const StagePrediction& stage);
double memory_share(const PlannedCount& planned);

// For people: the job, the cluster, the assumptions, and a line for each count. At most 100 columns
// wide if names are short.
std::string plan_table(const PlanReport& report);
// One plan. Each stage has a row with its layers, its GPUs, a bar of their activity in a step, and
// their memory. The stages' times follow.
std::string plan_drawing(const PlannedCount& planned);
std::string drawing_legend(double usable_memory);  // `usable_memory`: Hardware::memory_share

// That the plan runs, by name; "own-lists": the job's.
std::string schedule_of(const PlanReport& report, const Plan& plan);

Record plan_record(const PlanReport& report, const PlannedCount& planned);
Json plan_json(const PlanReport& report);

}  // namespace espalier::cli
