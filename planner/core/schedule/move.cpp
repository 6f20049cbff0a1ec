#include "planner/core/schedule/move.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "planner/core/error.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {
namespace {

int gpus_of(const std::vector<Holding>& holdings) {
  std::size_t sum = 0;
  for (const Holding& held : holdings) sum += held.gpus.size();
  return static_cast<int>(sum);
}

std::string count(int number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

std::vector<const NodeView*> named(const Reach& reach, const MoveWish& wish, const ClusterView& cluster) {
  std::vector<const NodeView*> nodes;
  const std::set<std::string> names(wish.nodes.begin(), wish.nodes.end());
  for (const std::string& name : names) {
    const NodeView* node = cluster.find(name);
    if (node == nullptr) throw Error("node " + name + ": Slurm knows no such node");
    if (!node->usable) throw Error("node " + name + ": is down, draining or in other partitions");
    if (!node->unhealthy.empty())
      throw Error("node " + name + ": the site's health check keeps bases from it: " + node->unhealthy);
    if (!reach.has_type(node->gpu_type))
      throw Error("node " + name + ": has GPUs of type " + node->gpu_type + ", which types= of the job leaves out");
    if (!reach.has(*node)) throw Error("node " + name + ": is not in the partition and the reservation of its base");
    nodes.push_back(node);
  }
  return nodes;
}

// The first of `nodes` that have `each` idle GPUs, `gpus` in sum; none: there are too few. `one_type`: they are of one
// type, the first of which there are enough.
std::vector<ExtensionRequest> parts_on(const std::vector<const NodeView*>& nodes, int gpus, int each, bool one_type) {
  std::map<std::string, std::vector<ExtensionRequest>> by_type;
  for (const NodeView* node : nodes) {
    if (node->idle_gpus() < each) continue;
    auto& parts = by_type[one_type ? node->gpu_type : ""];
    parts.push_back({.node = node->name, .gpus = each});
    if (static_cast<int>(parts.size()) * each == gpus) return parts;
  }
  return {};
}

// Slurm chooses which of a node's idle GPUs the base gets.
bool may_get_unfit(const ElasticJob& job, const NodeView& node) {
  return std::any_of(job.unfit.begin(), job.unfit.end(), [&](const GpuId& gpu) {
    return gpu.node == node.name && gpu.index >= 0 && gpu.index < std::ssize(node.gpu_owner) &&
           node.gpu_owner[static_cast<std::size_t>(gpu.index)] == 0;
  });
}

std::set<std::string> nodes_of(const ElasticJob& job) {
  std::set<std::string> nodes;
  if (job.plan)
    for (const GpuId& gpu : job.plan->ranks()) nodes.insert(gpu.node);
  return nodes;
}

bool any_node_stays(const ElasticJob& job, const std::vector<Holding>& base) {
  const auto now = nodes_of(job);
  return now.empty() ||
         std::any_of(base.begin(), base.end(), [&](const Holding& held) { return now.contains(held.node); }) ||
         std::any_of(job.extensions.begin(), job.extensions.end(),
                     [&](const Holding& held) { return now.contains(held.node); });
}

// What the plan keeps of the base that is left where no node stays. A whole replica of a stage: programs and models may
// allow no smaller one.
const std::vector<GpuId>& bridge_of(const Plan& present) { return present.stages.back().replicas.back().gpus; }

bool uses_node(const Plan& plan, const std::string& node) {
  const auto ranks = plan.ranks();
  return std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) { return gpu.node == node; });
}

// A job that waits for GPUs comes first. It is Slurm that knows whether it can start; that it may use one of the nodes
// is enough to leave them alone.
void leave_to_waiting(const std::vector<ExtensionRequest>& base, const ClusterView& cluster) {
  for (const WaitingJob& job : cluster.waiting)
    for (const ExtensionRequest& request : base)
      if (job.only_nodes.empty() || std::binary_search(job.only_nodes.begin(), job.only_nodes.end(), request.node))
        throw Error("another job waits for GPUs and could use those of " + request.node);
}

std::vector<GpuId> gpus_on(const std::vector<Holding>& base, const std::vector<Holding>& extensions) {
  std::vector<GpuId> gpus;
  for (const auto* holdings : {&base, &extensions})
    for (const Holding& held : *holdings)
      for (const int index : held.gpus) gpus.push_back({held.node, index});
  return gpus;
}

struct Moved {
  ElasticJob job;           // with the second base as its anchor
  std::vector<GpuId> gpus;  // of that base and of the extensions
};

// nullopt: the cluster lacks one of the nodes.
std::optional<Moved> moved_to(const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                              const ClusterView& cluster) {
  Moved moved{job, {}};
  moved.job.anchor.clear();
  for (const ExtensionRequest& request : base) {
    const NodeView* node = cluster.find(request.node);
    if (node == nullptr) return std::nullopt;
    Holding held{0, request.node, {}};
    for (std::size_t index = 0; index < node->gpu_owner.size(); ++index)
      if (node->gpu_owner[index] == 0 && static_cast<int>(held.gpus.size()) < request.gpus)
        held.gpus.push_back(static_cast<int>(index));
    moved.job.anchor.push_back(std::move(held));
  }
  moved.gpus = gpus_on(moved.job.anchor, job.extensions);
  return moved;
}

}  // namespace

bool Reach::has_type(const std::string& type) const {
  return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
}

std::vector<ExtensionRequest> place_for(const ElasticJob& job, const MoveWish& wish, const Reach& reach,
                                        const ClusterView& cluster) {
  const int gpus = gpus_of(job.anchor);
  if (gpus == 0) throw Error("its base does not run yet");
  std::vector<const NodeView*> nodes;
  int least = 1;  // on each node
  if (!wish.nodes.empty()) {
    nodes = named(reach, wish, cluster);
    const int number = static_cast<int>(nodes.size());
    if (gpus % number != 0)
      throw Error("its base has " + count(gpus, "GPU") + ", which cannot be shared out evenly over " +
                  count(number, "node"));
    least = gpus / number;
  } else {
    if (!wish.type.empty() && !reach.has_type(wish.type))
      throw Error("type " + wish.type + ": types= of the job leaves it out");
    for (const NodeView& node : cluster.nodes)
      if (node.usable && node.unhealthy.empty() && reach.has(node) &&
          (wish.type.empty() || node.gpu_type == wish.type) && !may_get_unfit(job, node))
        nodes.push_back(&node);
  }
  const auto now = nodes_of(job);  // these are preferred
  std::stable_partition(nodes.begin(), nodes.end(), [&](const NodeView* node) { return now.contains(node->name); });
  const int most = wish.nodes.empty() ? gpus : least;
  for (int each = most; each >= least; --each) {
    if (gpus % each != 0) continue;
    std::vector<ExtensionRequest> base = parts_on(nodes, gpus, each, wish.nodes.empty());
    if (base.empty()) continue;
    if (wish.nodes.empty() && wish.type.empty() && base.size() >= job.anchor.size())
      throw Error("idle GPUs are on no fewer nodes than its base, which is on " +
                  count(static_cast<int>(job.anchor.size()), "node") + "; name a type or nodes");
    std::sort(base.begin(), base.end(), [](const auto& a, const auto& b) { return a.node < b.node; });  // as Slurm does
    leave_to_waiting(base, cluster);
    return base;
  }
  throw Error(wish.nodes.empty()
                  ? "there are not " + count(gpus, "idle GPU") + (wish.type.empty() ? "" : " of type " + wish.type) +
                        " with the same number of them on each node"
                  : "not all of these nodes have " + count(least, "idle GPU"));
}

std::vector<std::string> nodes_to_wait_for(int gpus, const MoveWish& wish, const Reach& reach,
                                           const ClusterView& cluster) {
  if (wish.type.empty() && wish.nodes.empty()) return {};
  std::vector<const NodeView*> nodes;
  if (!wish.nodes.empty()) {
    nodes = named(reach, wish, cluster);
  } else {
    if (!reach.has_type(wish.type)) throw Error("type " + wish.type + ": types= of the job leaves it out");
    for (const NodeView& node : cluster.nodes)
      if (node.gpu_type == wish.type && reach.has(node)) nodes.push_back(&node);
  }
  std::vector<std::string> names;
  std::size_t sum = 0;
  for (const NodeView* node : nodes) {
    names.push_back(node->name);
    sum += node->gpu_owner.size();
  }
  if (static_cast<int>(sum) < gpus)
    throw Error("its base needs " + count(gpus, "GPU") + ", and " +
                (wish.nodes.empty() ? "there are " + std::to_string(sum) + " of type " + wish.type + " in its partition"
                                    : "these nodes have " + std::to_string(sum)));
  return names;
}

std::optional<Plan> plan_after_move(const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                                    const ClusterView& cluster, const PlanningBasis* known) {
  auto moved = moved_to(job, base, cluster);
  return moved ? plan_on_base(job, moved->job.anchor, known) : std::nullopt;
}

std::optional<Plan> plan_on_base(const ElasticJob& job, const std::vector<Holding>& base, const PlanningBasis* known) {
  ElasticJob moved = job;
  moved.anchor = base;
  auto gpus = gpus_on(base, job.extensions);
  if (!any_node_stays(job, base)) {
    // As many GPUs as on the new base alone, so that what fits there fits here.
    const std::vector<GpuId>& bridge = bridge_of(*job.plan);
    if (gpus.size() > bridge.size()) gpus.resize(gpus.size() - bridge.size());
    gpus.insert(gpus.end(), bridge.begin(), bridge.end());
    Holding left{base_of(job), bridge.front().node, {}};
    for (const GpuId& gpu : bridge) left.gpus.push_back(gpu.index);
    moved.extensions.push_back(left);
    moved.max_gpus = std::max(moved.max_gpus, static_cast<int>(gpus.size()));
    auto plan = plan_on_subset(moved, gpus, known);
    if (!plan || uses_node(*plan, left.node)) return plan;
    // The new nodes alone are predicted to be faster, e.g. over a slow network. But state has no other way to them. A
    // plan with more GPUs than they have keeps some of the bridge.
    const int fresh = static_cast<int>(gpus.size() - bridge.size());
    moved.floor_gpus = std::max(moved.floor_gpus, fresh + 1);
    plan = plan_on_subset(moved, gpus, known);
    return plan && uses_node(*plan, left.node) ? std::move(plan) : std::nullopt;
  }
  return plan_on_subset(moved, gpus, known);
}

int most_after_move(int max_gpus, const std::vector<ExtensionRequest>& base, const Plan& present) {
  if (present.stages.empty() || present.stages.back().replicas.empty()) return max_gpus;
  std::size_t gpus = bridge_of(present).size();
  for (const ExtensionRequest& request : base) gpus += static_cast<std::size_t>(std::max(0, request.gpus));
  return std::max(max_gpus, static_cast<int>(gpus));
}

ElasticJob job_at_rest(const ElasticJob& job, const std::vector<ExtensionRequest>& base, const ClusterView& cluster) {
  auto moved = moved_to(job, base, cluster);
  return moved ? std::move(moved->job) : job;
}

std::optional<Plan> plan_at_rest(const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                                 const ClusterView& cluster, const PlanningBasis* known) {
  const auto moved = moved_to(job, base, cluster);
  return moved ? plan_on_subset(moved->job, moved->gpus, known) : std::nullopt;
}

}  // namespace espalier
