// One decision of the planner, recorded with everything the planner weighed for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier {

// A launcher itself decides `recover`: after a loss of GPUs it continues on the GPUs that are left.
// `start`: the plan of generation 0.
enum class DecisionKind { nothing, grow, shrink, migrate, recover, start };

// The event that caused the decision.
enum class Trigger {
  job_submitted,
  gpus_released,
  job_started,
  profile_ready,
  generation_done,
  node_down,
  timer,
  user,
  preempted  // Slurm takes extensions back, and the launcher acts by itself
};

struct Candidate {
  std::string plan;  // described in words: degrees, layers, GPUs per node
  int gpus = 0;      // GPUs that the plan adds; negative: GPUs that it gives back
  double predicted_step_seconds = 0;
  double benefit = 0;       // marginal benefit B (Suika §3.2)
  std::string rejected_by;  // why it lost; empty for the winner
};

// A request for one extension. An extension lies on one node.
struct ExtensionRequest {
  std::string node;
  int gpus = 0;
  int cpus = 0;
  long memory_mb = 0;
  int lease_minutes = 0;  // Slurm time limit
  bool operator==(const ExtensionRequest&) const = default;
};

struct Decision {
  std::int64_t id = 0;  // given by the decision store
  double time = 0;      // seconds since the epoch
  Trigger trigger = Trigger::timer;
  DecisionKind kind = DecisionKind::nothing;
  JobId job = 0;
  std::string reason;                     // one sentence for `espalier explain`
  std::string objective;                  // what the objective weighed, in words; empty: the policy has none
  Plan plan;                              // the target; GPU indices on new nodes are provisional until granted
  std::vector<ExtensionRequest> acquire;  // grow, migrate
  std::vector<JobId> release;             // extensions that the job gives back: shrink, migrate
  double predicted_step_seconds = 0;
  std::vector<Candidate> candidates;

  // Filled in later, from the launcher's reports.
  std::string outcome;  // "committed", "aborted: ...", "shadow", "" while under way
  double measured_step_seconds = 0;
  double pause_ms = 0;
};

}  // namespace espalier
