// What is stored of a job's trials of plans beside its coefficients, so that a restarted espalierd does not make them
// once more. Pure.
#pragma once

#include "planner/core/json.hpp"
#include "planner/core/schedule/plan_trials.hpp"

namespace espalier {

// Null where nothing was measured or tried, or where the plans would take more than kMostKeptTrials bytes: the record
// of the coefficients, which is worth more, has a limit (Store::kMostRow).
Json kept_trials(const PlanTrials& trials);
inline constexpr std::size_t kMostKeptTrials = 128u << 10;

// The same trials, for the next report of the job. An empty PlanTrials where `kept` is no result of kept_trials(), or
// null, as in records of older versions.
PlanTrials trials_kept(const Json& kept);

}  // namespace espalier
