// Where the base of a movable job can move to, and with which plan. Pure.
//
// The basic demand of a movable job is a Slurm job of its own, the base: ElasticJob::anchor names another Slurm job
// than ElasticJob::id. A decision of kind migrate whose `acquire` has no lease (lease_minutes 0) asks for a second base
// on these nodes, with as many GPUs each. It takes the place of the base.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/decision.hpp"
#include "planner/core/schedule/planning_basis.hpp"

namespace espalier {

// The base of `job`; 0: it is not movable, or its base does not run yet.
inline JobId base_of(const ElasticJob& job) {
  return job.anchor.empty() || job.anchor.front().job == job.id ? 0 : job.anchor.front().job;
}
inline bool moves_base(const Decision& decision) {
  return decision.kind == DecisionKind::migrate && !decision.acquire.empty() &&
         decision.acquire.front().lease_minutes == 0;
}

// Where the base of a movable job may be.
struct Reach {
  std::vector<std::string> types;                           // of GPUs; empty: any
  std::shared_ptr<const std::set<std::string>> nodes = {};  // of the base's partition and reservation; null: any
  bool has_type(const std::string& type) const;
  bool has(const NodeView& node) const { return has_type(node.gpu_type) && (!nodes || nodes->contains(node.name)); }
};

struct MovableJob {
  JobId id = 0;  // of the submitted job; without an entry in PlanningInput::jobs it is left alone
  Reach reach;
};

// What a user asks for. Both empty: fewer nodes than now.
struct MoveWish {
  std::string type;                // GPUs of this type only
  std::vector<std::string> nodes;  // exactly these nodes
};

// The parts of a second base as large as the present one, on GPUs that are idle now, as many on each node, on as few
// nodes as can be. Unless the user names nodes they are of one type, and none has an idle GPU unfit for the job. Throws
// Error that says why there is none: too few idle GPUs; a waiting job could use them; it may not be there; no better.
std::vector<ExtensionRequest> place_for(const ElasticJob& job, const MoveWish& wish, const Reach& reach,
                                        const ClusterView& cluster);

// The nodes that a base of so many GPUs is to wait for. They need not be idle. Empty: the wish names nothing, and it
// may have any. Throws Error as place_for() does.
std::vector<std::string> nodes_to_wait_for(int gpus, const MoveWish& wish, const Reach& reach,
                                           const ClusterView& cluster);

// The plan after the move: on idle GPUs of these nodes (their indices are provisional), and on the job's extensions.
// State goes over within nodes that both plans use. If there is none, the plan keeps one GPU of the present base in
// place of one of the new base, also if the new nodes alone would be faster. The launcher leaves it in a second change,
// as both bases are held meanwhile. nullopt: no valid plan fits. `job` has a plan.
std::optional<Plan> plan_after_move(const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                                    const ClusterView& cluster, const PlanningBasis* known);

// The same on a second base that runs: `base` is what Slurm has given it.
std::optional<Plan> plan_on_base(const ElasticJob& job, const std::vector<Holding>& base, const PlanningBasis* known);

// The most GPUs of the plan after a move of the base, where the job may have `max_gpus` otherwise and runs `present`. A
// plan that leaves all of its nodes keeps a whole replica of it for a while, beside the new base.
int most_after_move(int max_gpus, const std::vector<ExtensionRequest>& base, const Plan& present);

// The job with the second base as its anchor; as it is, if the cluster lacks a node of `base`.
ElasticJob job_at_rest(const ElasticJob& job, const std::vector<ExtensionRequest>& base, const ClusterView& cluster);

// The same once the first base has been left: on the second base and the job's extensions only.
std::optional<Plan> plan_at_rest(const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                                 const ClusterView& cluster, const PlanningBasis* known);

}  // namespace espalier
