// Policy `arena`: Arena's dynamic scheduling (§3.5) where Slurm owns the queue and a job's basic GPUs.
//
// What of §3.5 became what:
// - Performance on given resources: the fastest proxy plan of the grids there (proxy_book.hpp), in samples per second,
//   scaled so that the present plan has its measured speed. Profiles and stages' profiles are in the coefficients.
// - Objective (eq. 5): the sum of the jobs' throughputs. PlanningInput::weights are factors on it.
// - Priority queues, promotion, blockers (sEvent): Slurm's priorities and backfill. No such queue here.
// - Run to completion: basic GPUs are never taken. A job scales between its basic demand and its maximum.
// - Scaling down for a job that waits (lEvent): serve_waiting() takes extensions back, those first whose halving loses
//   the least per GPU. A base makes room by moving, here to another type as well (defragment.hpp).
// - Scaling up (InFlightHandler): best_step() doubles a job, or moves the base of a movable job to another type, up to
//   `search_depth` times. A step must win more training than its redeployment costs (payoff.hpp, better_place.hpp).
// - Buddy allocation: powers of two between the basic demand and the maximum, in one node or as few nodes as can be.
// - One type per job: extensions are of the type of the basic GPUs. Others are given back.
// - Runtime pruning (§3.6): the plan on the GPUs that were found is searched for around the grid's proxy plan.
// - Periodic migration against fragments: the planner moves bases to fewer nodes under every policy.
#pragma once

#include <memory>

#include "planner/core/scheduler.hpp"

namespace espalier {

// Of `options` it uses `arena`, the leases, the cooldown, least_gain, idle_seconds, and the times that a change costs.
// A decision that moves a base (moves_base()) is of a job of PlanningInput::movable; there is at most one.
std::unique_ptr<Scheduler> make_arena_scheduler(const SchedulerOptions& options, const ArenaPolicyOptions& arena);

}  // namespace espalier
