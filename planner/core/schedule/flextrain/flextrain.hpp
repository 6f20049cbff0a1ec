// FlexTrain's scaling controller (§5): idle GPUs go to the elastic job with the fewest GPUs, where it is likely that
// they stay idle for long enough; waiting jobs get them back from those that gained most.
#pragma once

#include <memory>

#include "planner/core/schedule/flextrain/options.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

// Whether scaling up is likely to pay (eq. 16): the rate of arrivals times speedup / (speedup - 1) times the overhead
// is below ln(1 / P_th). `rate` per second, `overhead_seconds` as if training stood still for so long. False for a
// speedup of 1 or less.
bool likely_to_pay(double rate, double speedup, double overhead_seconds, double least_probability);

// The probability of eq. 15. 0 for a speedup of 1 or less.
double idle_probability(double rate, double speedup, double overhead_seconds);

// Needs PlanningInput::arrivals. Of `options` it uses the leases, the cooldown, least_gain, and the times that a change
// costs. Not in the paper: jobs rest for the cooldown, and GPUs come and go as whole extensions.
std::unique_ptr<Scheduler> make_flextrain_scheduler(const SchedulerOptions& options, const FlextrainOptions& flextrain);

}  // namespace espalier
