// What the planner is told by espalier.toml and by the command line. It may be told anew while it runs.
#pragma once

#include <string>

#include "planner/core/scheduler.hpp"
#include "planner/core/topology/hardware_overrides.hpp"
#include "planner/daemon/extension_rules.hpp"
#include "planner/daemon/grants.hpp"
#include "planner/daemon/node_health.hpp"
#include "planner/daemon/profile_jobs.hpp"

namespace espalier {

struct PlannerSettings {
  SchedulerOptions scheduler;
  HardwareOverrides hardware;
  std::string partition;
  ExtensionRules rules;  // [extensions]
  HealthRules health;
  ProfilingRules profiling;
  int max_gpus = 64;
  // A base moves to GPUs on which its job's step is this many times as fast; below 1: only to make room.
  double migrate_gain = 1.1;
  double trial_percent = 5;  // of growth_regret.hpp
  int plan_trials = 0;       // most trials of other plans on the GPUs that a job has; 0: none
  double poll_seconds = 2;
  double outcome_seconds = 180;  // after this time a proposal without outcome is closed
  // Added to outcome_seconds while the launcher says that the hand-off is at a boundary.
  double boundary_seconds = 0;
  bool shadow = false;                 // decide and record, propose nothing
  bool refuses_late_deadlines = true;  // a job that cannot keep its deadline does not start; not with `shadow`
  // Whether what the jobs of one user taught counts for the jobs of others.
  bool share_profiles = false;
  MakeGrant grant = {};  // null: extensions need no grants
};

}  // namespace espalier
