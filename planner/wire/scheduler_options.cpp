#include "planner/wire/scheduler_options.hpp"

namespace espalier::wire {

FlextrainOptions flextrain_options(const Config& config) {
  FlextrainOptions options;
  options.elasticity = config.policy == "flextrain-dp" ? Elasticity::pipeline_and_data : Elasticity::pipeline;
  options.most_times = config.flextrain_most_times;
  options.least_probability = config.flextrain_least_probability;
  options.window_seconds = config.flextrain_window_hours * 3600;
  options.least_gpus = config.flextrain_least_gpus;
  return options;
}

ArenaPolicyOptions arena_options(const Config& config) { return {config.arena_search_depth, config.migrate_gain}; }

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
  if (config.idle_forecast) options.idle_forecast.emplace();
  options.reclaim = config.reclaim;
  options.objective = config.objective;
  options.as_printed = config.policy == "suika";
  if (config.policy == "flextrain" || config.policy == "flextrain-dp") options.flextrain = flextrain_options(config);
  if (config.policy == "arena") options.arena = arena_options(config);
  return options;
}

}  // namespace espalier::wire
