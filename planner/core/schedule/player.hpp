// A job in one decision of the scheduler: its state before, and what it gains meanwhile. Internal to the scheduler.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "planner/core/schedule/objective.hpp"
#include "planner/core/schedule/pessimist.hpp"
#include "planner/core/schedule/virtual_job.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

// A job in one decision.
struct Player {
  const ElasticJob* job = nullptr;
  VirtualJob* virtual_job = nullptr;
  // Factor on its benefits, and on them when jobs are compared: of `standing`.
  double discount = 1;
  double turn = 1;
  JobStanding standing;  // what the objective says of it
  // Times of its plan at the beginning of the decision: printed and exact.
  double first_ms = 0;
  double first_exact = 0;
  // Exact time of the best plan known on its present GPUs. Benefits are measured against it.
  double base_exact = 0;
  double first_size = 0;  // size of its GPUs at the beginning
  int first_gpus = 0;
  std::vector<NodeGpus> first_held;
  bool grows = false;  // takes part in the rounds
  bool grown = false;
  bool fresh = false;    // `best` is still available
  bool shifted = false;  // `best` is available, but on other GPUs that the job has not looked at
  ScaleOut best;
  // Prefixes whose gain would not hold over the whole range of what is assumed, and the best of
  // them.
  std::set<std::size_t> doubtful;
  ScaleOut doubted;
  std::set<std::size_t> slow_placed;     // prefixes that do not pay for the change GPU by GPU
  std::shared_ptr<Pessimist> pessimist;  // null: not needed yet
  std::vector<Candidate> candidates;     // of the first round that it won
  double first_benefit = 0;
};

// Seconds until the job ends at its present speed. Infinity: its steps or its speed are not known.
double remaining_seconds(const ElasticJob& job);

// A decision without content, for `job`, at the time of `input`.
Decision decision_for(const PlanningInput& input, const ElasticJob& job, DecisionKind kind);

}  // namespace espalier
