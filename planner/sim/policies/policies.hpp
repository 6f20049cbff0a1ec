// All policies by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/sim/policy.hpp"

namespace espalier::sim {

struct PolicyOptions {
  double lambda = 1;                  // tau = U^lambda, of the policies with a threshold
  RedeployOptions redeploy;           // what restarts cost, for policies that weigh it
  std::optional<double> small_first;  // of espalier (scheduler.hpp); nullopt: its default
  // What espalierd runs with, of the planner's own policies; but for what is given above. nullopt: defaults.
  std::optional<SchedulerOptions> scheduler;
  int most_gpus = 0;  // of one job, of the same policies; 0: as many as there are
};

const std::vector<std::string>& policy_names();
// Throws Error that lists the names.
std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyOptions& options = {});

// One per file of this folder.
std::unique_ptr<Policy> make_non_elastic(const std::string& name);  // fifo, sjf: the base queue alone
std::unique_ptr<Policy> make_scheduler_policy(const std::string& name, const PolicyOptions& options);  // suika, ...
std::unique_ptr<Policy> make_metis(const PolicyOptions& options);
std::unique_ptr<Policy> make_sia(const PolicyOptions& options);
std::unique_ptr<Policy> make_rubick(const PolicyOptions& options);
std::unique_ptr<Policy> make_elasticflow(const PolicyOptions& options);
std::unique_ptr<Policy> make_gavel(const PolicyOptions& options);

}  // namespace espalier::sim
