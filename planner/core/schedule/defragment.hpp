// Defragmentation (Suika §3.2.3): a waiting job finds no node with enough room, although there are enough GPUs, and the
// base of a movable job can make room by moving. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/schedule/move.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

struct Relief {
  JobId waiting = 0;                   // the job that can start when the base has moved
  JobId job = 0;                       // the movable job
  std::string node;                    // where room is made
  std::vector<ExtensionRequest> base;  // the parts of the second base, without leases, sorted by node
  int held = 0;                        // of the GPUs for `base`, those that extensions hold now
  double cost_gpu_seconds = 0;         // what the move costs the movable job
};

// The cheapest move that gives a waiting job its last node: by GPU-seconds of the pause, then by extensions' GPUs that
// it needs, then by job. Only the first few waiting jobs in the order of priority, and the 64 cheapest of the bases in
// the way of each, are looked at. The second base
// has as many GPUs as the first, of the same type (under policy `arena`, where it finds no place, of another type), on
// no more nodes, and takes no room that the waiting job or one served before it needs. nullopt: no single move helps;
// or Slurm expects to start the job before a move would have paid. Cost: O(waiting jobs x nodes) as serve_waiting(),
// and O(few x (movable jobs x nodes)).
std::optional<Relief> find_relief(const PlanningInput& input, const SchedulerOptions& options,
                                  const std::vector<MovableJob>& movable);

}  // namespace espalier
