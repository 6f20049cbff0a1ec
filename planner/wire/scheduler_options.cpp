#include "planner/wire/scheduler_options.hpp"

namespace espalier::wire {

SchedulerOptions scheduler_options(const Config& config) {
  SchedulerOptions options;
  options.max_lease_minutes = config.max_lease_minutes;
  options.kill_wait_seconds = config.kill_wait_seconds;
  options.cooldown_seconds = config.cooldown_seconds;
  options.lambda = config.lambda;
  options.hysteresis = config.hysteresis;
  options.trade = config.trade;
  options.least_gain = config.least_gain;
  options.idle_seconds = config.idle_seconds;
  options.reclaim = config.reclaim;
  options.as_printed = config.policy == "suika";
  return options;
}

}  // namespace espalier::wire
