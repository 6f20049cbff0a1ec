// Messages about movable jobs, besides `propose`. See messages.hpp for how they become frames.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::wire {

// From the launcher of a movable job to the planner: after `registered`, and whenever it changes. A decision of kind
// migrate moves the job's base where its `acquire` has no lease (planner/core/schedule/move.hpp).
struct BasesHeld {
  static constexpr const char* type = "bases";
  JobId job = 0;
  std::vector<JobId> bases;        // Slurm jobs that wait or run as its base, or did until training left them
  std::vector<std::string> types;  // GPU types that it may run on; empty: any
  // The base that waits while the job has none yet, where training may start on fewer GPUs; 0: there is none. The
  // planner proposes a smaller base by a decision that starts_smaller() (planner/core/schedule/smaller_base.hpp).
  JobId waits = 0;
};

// From the planner to the launcher of a movable job whose base waits: it is to wait for these nodes only. The launcher
// updates the base, which keeps its id and its place in Slurm's queue.
struct SteerBase {
  static constexpr const char* type = "steer_base";
  JobId job = 0, base = 0;
  std::string nodes;  // "n[3-4]"; empty: all that it may have
};

// From the planner to the launcher of a movable job that moves: the second base of the decision is to be given back,
// and the move given up, unless training has gone over. `reason` for people.
struct WithdrawBase {
  static constexpr const char* type = "withdraw_base";
  JobId job = 0;
  std::int64_t decision = 0;
  std::string reason;
};

}  // namespace espalier::wire
