// All policies by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/core/schedule/flextrain/flextrain.hpp"
#include "planner/sim/policies/arena_scheduler.hpp"
#include "planner/sim/policy.hpp"

namespace espalier::sim {

struct PolicyOptions {
  double lambda = 1;                       // tau = U^lambda; for policies with a threshold
  RedeployOptions redeploy;                // costs of restarts, for policies that weigh them
  std::optional<double> short_first;       // for espalier (scheduler.hpp); nullopt: its default
  std::optional<double> trade;             // likewise
  std::optional<ObjectiveKind> objective;  // likewise; nullopt: `scheduler`'s
  // Likewise: how long idle GPUs are taken to stay idle. nullopt: `scheduler`'s, or a forecast.
  std::optional<double> idle_seconds;
  // espalierd's options for the planner's own policies. The values above take precedence. nullopt:
  // defaults.
  std::optional<SchedulerOptions> scheduler;
  FlextrainOptions flextrain;
  ArenaOptions arena;
  ArenaPolicyOptions anchored;  // of arena-anchored
  double migrate_gain = 1.1;    // planner.migrate_gain, for movable jobs under espalier
  // planner.share_profiles, for the planner's own policies: a job knows what jobs of its kind measured, whoever ran
  // them. Traces do not name users, so that without it every job learns for itself.
  bool share_profiles = true;
  int most_gpus = 0;  // most GPUs of one job, for the same policies; 0: no limit
};

const std::vector<std::string>& policy_names();
// Throws Error, listing the names, when the name is unknown.
std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyOptions& options = {});

// One per file of this folder.
std::unique_ptr<Policy> make_non_elastic(const std::string& name);  // fifo, sjf, backfill, slurm: the base queue alone
std::unique_ptr<Policy> make_scheduler_policy(const std::string& name, const PolicyOptions& options);  // suika, ...
std::unique_ptr<Policy> make_flextrain(const std::string& name,
                                       const PolicyOptions& options);  // flextrain, flextrain-dp
std::unique_ptr<Policy> make_arena_anchored(const std::string& name, const PolicyOptions& options);
std::unique_ptr<Policy> make_metis(const PolicyOptions& options);
std::unique_ptr<Policy> make_sia(const PolicyOptions& options);
std::unique_ptr<Policy> make_rubick(const PolicyOptions& options);
std::unique_ptr<Policy> make_elasticflow(const PolicyOptions& options);
std::unique_ptr<Policy> make_gavel(const PolicyOptions& options);
std::unique_ptr<Policy> make_arena(const PolicyOptions& options);

}  // namespace espalier::sim
