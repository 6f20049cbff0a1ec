#include "planner/core/schedule/smaller_base.hpp"

#include <algorithm>
#include <set>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

struct Ground {
  const NodeView* node = nullptr;
  int gpus = 0, idle = 0;
};

bool may_run_on(const std::vector<std::string>& types, const std::string& type) {
  return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
}

bool names(const std::vector<std::string>& sorted, const std::string& node) {
  return sorted.empty() || std::binary_search(sorted.begin(), sorted.end(), node);
}

// The nodes on which the base that waits may run.
std::vector<Ground> grounds_of(const WaitingBase& base, const WaitingJob& waits, const ClusterView& cluster) {
  std::vector<Ground> grounds;
  for (const NodeView& node : cluster.nodes)
    if (node.usable && node.unhealthy.empty() && may_run_on(base.types, node.gpu_type) &&
        names(waits.only_nodes, node.name))
      grounds.push_back({&node, static_cast<int>(node.gpu_owner.size()), node.idle_gpus()});
  return grounds;
}

// Of all nodes that Slurm may grant the base at any time, also of those that are drained or ill now.
std::set<std::string> types_within_reach(const WaitingBase& base, const WaitingJob& waits, const ClusterView& cluster) {
  std::set<std::string> types;
  for (const NodeView& node : cluster.nodes)
    if (!node.gpu_owner.empty() && may_run_on(base.types, node.gpu_type) && names(waits.only_nodes, node.name))
      types.insert(node.gpu_type);
  return types;
}

// A job that waits comes first. It is Slurm that knows whether it can start; that it may use a node is enough.
void leave_to_others(std::vector<Ground>& grounds, JobId base, const ClusterView& cluster) {
  std::erase_if(grounds, [](const Ground& ground) { return ground.idle == 0; });  // few are left on a busy cluster
  for (const WaitingJob& other : cluster.waiting)
    if (other.id != base && !grounds.empty())
      std::erase_if(grounds, [&](const Ground& ground) { return names(other.only_nodes, ground.node->name); });
}

// As many nodes of `grounds` as can be had with `each` GPUs on each. `spare`: so many of them may lose the room that
// the base that waits needs on a node, `needed`.
std::vector<const NodeView*> choose(const std::vector<Ground>& grounds, const std::string& type, int each, int needed,
                                    int spare, int most) {
  std::vector<const NodeView*> chosen;
  for (const Ground& ground : grounds) {
    if (static_cast<int>(chosen.size()) == most) break;
    if (ground.node->gpu_type != type || ground.idle < each) continue;
    const bool takes_room = ground.gpus >= needed && ground.gpus - each < needed;
    if (takes_room && spare == 0) continue;
    spare -= takes_room;
    chosen.push_back(ground.node);
  }
  return chosen;
}

}  // namespace

bool gets_room(JobId base, const ClusterView& cluster, const WaitingPlan& served) {
  const auto waits = std::find_if(cluster.waiting.begin(), cluster.waiting.end(),
                                  [base](const WaitingJob& job) { return job.id == base; });
  if (waits == cluster.waiting.end() || waits->starts_later ||  // nothing is asked back for it
      std::any_of(served.unserved.begin(), served.unserved.end(),
                  [base](const Unserved& one) { return one.job.id == base; }))
    return false;
  const int nodes = std::max(1, waits->nodes), each = (waits->gpus + nodes - 1) / nodes;
  const auto idle = std::count_if(cluster.nodes.begin(), cluster.nodes.end(), [&](const NodeView& node) {
    const int needed = waits->whole_nodes ? std::max(each, static_cast<int>(node.gpu_owner.size())) : each;
    return node.usable && names(waits->only_nodes, node.name) && node.idle_gpus() >= needed;
  });
  return idle < nodes;
}

std::vector<ExtensionRequest> smaller_base(const WaitingBase& base, const ClusterView& cluster) {
  const auto waits = std::find_if(cluster.waiting.begin(), cluster.waiting.end(),
                                  [&](const WaitingJob& job) { return job.id == base.id; });
  const std::string name = "base " + std::to_string(base.id);
  if (waits == cluster.waiting.end()) throw Error(name + ": does not wait for GPUs");
  if (waits->left_to_slurm) throw Error(name + ": Slurm may start it in a moment");
  auto grounds = grounds_of(base, *waits, cluster);
  const int nodes = std::max(1, waits->nodes), needed = std::max(1, waits->gpus / nodes);
  const int with_room = static_cast<int>(
      std::count_if(grounds.begin(), grounds.end(), [&](const Ground& ground) { return ground.gpus >= needed; }));
  const auto types = types_within_reach(base, *waits, cluster);
  if (base.one_type && types.size() > 1)
    throw Error(name +
                ": may get GPUs of another type than those that are idle, and accuracy=bitwise keeps the type; "
                "name one type with types=");
  leave_to_others(grounds, base.id, cluster);
  std::vector<const NodeView*> best;
  int best_each = 0;
  int most_idle = 0;
  for (const Ground& ground : grounds) most_idle = std::max(most_idle, ground.idle);
  for (int each = std::min(most_idle, waits->gpus - 1); each >= 1; --each)
    for (const std::string& type : types) {
      const auto chosen = choose(grounds, type, each, needed, std::max(0, with_room - nodes), (waits->gpus - 1) / each);
      if (chosen.size() * static_cast<std::size_t>(each) <= best.size() * static_cast<std::size_t>(best_each)) continue;
      best = chosen;
      best_each = each;
    }
  if (static_cast<int>(best.size()) * best_each < base.least)
    throw Error(name + ": there are not " + std::to_string(base.least) +
                " idle GPUs with as many on each node that it could leave again and no other waiting job could use");
  std::vector<ExtensionRequest> parts;
  for (const NodeView* node : best) parts.push_back({.node = node->name, .gpus = best_each});
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  return parts;
}

}  // namespace espalier
