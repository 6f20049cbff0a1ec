// A growth after which steps take longer than before is taken back. The model may be wrong, e.g. where a node or a link
// is slower than its like, or where programs of others disturb the job. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/core/job.hpp"

namespace espalier {

// A job as it was when a growth was proposed to it.
struct BeforeGrowth {
  std::int64_t decision = 0;
  Plan plan;
  double step_seconds = 0;        // above 0
  std::vector<JobId> extensions;  // sorted
};

// nullopt: its steps were not measured, so nothing can be compared.
std::optional<BeforeGrowth> before_growth(const ElasticJob& job, std::int64_t decision);

// The way back: the plan before, without the extensions that came with the growth. nullopt: the growth pays, too few
// steps were done since, or the GPUs of the plan before are not all held any more. `steps`: since the growth, or
// another plan on the same GPUs, was committed. `slow`: slow nodes, with compute_shares(). `percent`: steps may take
// this much longer; before kStepsToCompare, six times as much. 0: no growth is taken back.
std::optional<Decision> taken_back(const BeforeGrowth& before, const ElasticJob& now, std::int64_t steps,
                                   const std::map<std::string, double>& slow, double percent);

// Whether it is another plan on the GPUs that the job has. It does not end the trial of a growth before it.
bool replans(const Decision& decision);

// Nodes of the extensions that `decision` gives back; sorted.
std::vector<std::string> nodes_left(const ElasticJob& job, const Decision& decision);

// After so many steps the planner judges whether a growth pays.
inline constexpr std::int64_t kStepsToCompare = 20;

}  // namespace espalier
