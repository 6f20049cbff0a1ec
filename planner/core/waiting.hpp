// Waiting jobs come before growth. This part decides which GPUs waiting jobs will take, which
// extensions must be given back for them, and which resources remain for growth.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

// The extensions that one elastic job should give back, and the waiting jobs that need them.
struct Reclaim {
  std::vector<JobId> extensions;  // sorted
  std::vector<JobId> waiting;     // in the order they were served
  bool for_limit = false;         // the first of them waits for a limit
};

// "job 12 and others wait for GPUs that extensions hold".
std::string describe(const Reclaim& reclaim);

// A waiting job that finds no room, even if all extensions were given back.
struct Unserved {
  WaitingJob job;
  int each = 0, nodes = 0;  // GPUs of each node, and number of nodes, that it needs
};

struct WaitingPlan {
  // One per usable node, without the GPUs that waiting jobs will take.
  std::vector<Supply> supplies;
  // By supply: GPUs that would be idle on the node if all extensions were given back, without those that waiting jobs
  // will take.
  std::vector<int> room;
  std::vector<Unserved> unserved;  // in the order of priority; without jobs that are left to Slurm or wait for a limit
  std::map<JobId, Reclaim> reclaims;  // by elastic job
};

// Serves the waiting jobs by priority, then by id. Each job has one of these outcomes:
// - It fits on GPUs that are idle or about to be idle: they are reserved for it.
// - It fits only with GPUs that extensions hold: the extensions with the least loss are reclaimed.
//   On a node that is the set with the lowest sum of marginal benefit times GPUs; of equal sets the
//   smallest.
// - It does not fit: leases on its nodes must end before its expected start. Without an expected start leases there are
//   not limited where Slurm takes extensions back for it (`slurm_preempts`); elsewhere none is allowed. The same holds
//   when Slurm is about to choose extensions itself (`left_to_slurm`; without an expected start no lease is allowed).
// - It fits, but Slurm starts it later all the same (`starts_later`): leases on its nodes must end before that. Nothing
//   is reserved or reclaimed for it. If it does not fit, it is among the unserved.
// - It shares its nodes with no other job (`whole_nodes`): a node fits where only extensions are in its way. All of
//   them are reclaimed, and all of its GPUs are reserved.
// - It lacks CPUs or memory, and Slurm takes no extension back for it: leases on the nodes that lack them must end
// before
//   its expected start. Without one none is allowed there. Jobs without GPUs (ClusterView::waiting_for_cpus) have this
//   outcome only.
// - It waits for a limit (PlanningInput::counted): extensions that count against the limit are reclaimed, the least
//   loss first, until `gpus` of their GPUs are given back or none is left. Nothing is reserved for it.
// Each waiting task of a job array is served as a job of its own, up to the first one that does not fit.
// `worth` gives the marginal benefit by extension. An extension without an entry is reclaimed last.
// `as_printed`: extensions are reclaimed by the lowest marginal benefit first (Suika §3.2.3).
// Anchors are never touched, because Slurm cannot move a running job: extensions leave a node where a
// job needs room, and grow again elsewhere. Bases of movable jobs can move (schedule/defragment.hpp).
WaitingPlan serve_waiting(const PlanningInput& input, const SchedulerOptions& options,
                          const std::map<JobId, double>& worth = {});

// GPUs per node and number of nodes that the job needs. Slurm's minimum number of nodes can be too low for the GPUs
// that one node has: `largest`, of the nodes on which the job may run.
std::pair<int, int> per_node_need(const WaitingJob& job, int largest);

// Whether the waiting job may run on the node.
bool allowed(const WaitingJob& job, const NodeView& node);

// Longest lease, in whole minutes, that ends KillWait + 60 s before `start`. 0: none is possible.
// At most `max_lease_minutes`.
int lease_before(double now, double start, const SchedulerOptions& options);

}  // namespace espalier
