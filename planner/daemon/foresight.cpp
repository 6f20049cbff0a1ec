#include "planner/daemon/foresight.hpp"

#include <algorithm>
#include <set>

#include "planner/wire/stage_queries.hpp"

namespace espalier {
namespace {

// Its GPUs are freed by free_gpus_of(), for all such jobs at once.
void end_job(SlurmSnapshot& slurm, JobId id) {
  if (const auto job = slurm.jobs.find(id); job != slurm.jobs.end()) {
    job->second.state = SlurmJobState::ended;
    job->second.holdings.clear();
  }
}

void free_gpus_of(const std::set<JobId>& ended, NodeView& node) {
  for (JobId& owner : node.gpu_owner)
    if (ended.contains(owner)) owner = 0;
}

// The node's GPUs that the job would displace the fewest for: idle ones first, then by the index.
std::vector<JobId> owners_of(const NodeView& node, std::size_t gpus) {
  std::vector<JobId> owners = node.gpu_owner;
  std::stable_sort(owners.begin(), owners.end(), [](JobId a, JobId b) { return (a == 0) > (b == 0); });
  owners.resize(std::min(gpus, owners.size()));
  return owners;
}

// Slurm does not tell how many CPUs and how much memory the jobs had that are taken to have ended.
void leave_room(NodeView& node) {
  const int idle = node.idle_gpus();
  node.freeing.clear();
  node.free_cpus = std::max(node.free_cpus, idle);
  node.free_memory_mb = std::max<long>(node.free_memory_mb, idle + 2);
}

}  // namespace

std::optional<Foresight> if_it_started(const SlurmSnapshot& slurm, JobId waiting, const std::string& type, bool alone) {
  const SlurmJob* const asked = slurm.alive(waiting);
  if (asked == nullptr || asked->wanted_gpus < 1) return std::nullopt;
  Foresight found{slurm, {}};
  ClusterView& cluster = found.slurm.cluster;
  std::vector<JobId> own_profile_jobs;
  for (const auto& [id, job] : slurm.jobs)
    if (job.uid == asked->uid && anchor_of_comment(job.comment) == waiting && !wire::profiled_type(job.comment).empty())
      own_profile_jobs.push_back(id);
  std::set<std::string> changed;
  std::set<JobId> ended;
  for (const JobId id : own_profile_jobs) {
    for (const Holding& held : found.slurm.jobs.at(id).holdings) changed.insert(held.node);
    end_job(found.slurm, id);
    ended.insert(id);
  }
  for (NodeView& node : cluster.nodes) free_gpus_of(ended, node);
  const auto entry = std::find_if(cluster.waiting.begin(), cluster.waiting.end(),
                                  [&](const WaitingJob& job) { return job.id == waiting; });
  const WaitingJob request = entry == cluster.waiting.end() ? WaitingJob() : *entry;
  // One task of an array starts; the others wait on.
  if (entry != cluster.waiting.end() && --entry->tasks < 1) cluster.waiting.erase(entry);

  std::vector<NodeView*> nodes;
  for (NodeView& node : cluster.nodes)
    if (node.usable && node.gpu_type == type &&
        (request.only_nodes.empty() ||
         std::binary_search(request.only_nodes.begin(), request.only_nodes.end(), node.name)))
      nodes.push_back(&node);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NodeView* a, const NodeView* b) { return a->idle_gpus() > b->idle_gpus(); });
  const int of_node = (asked->wanted_gpus + std::max(request.nodes, 1) - 1) / std::max(request.nodes, 1);
  int left = asked->wanted_gpus;
  for (NodeView* node : nodes) {
    const auto here =
        std::min({static_cast<std::size_t>(left), static_cast<std::size_t>(of_node), node->gpu_owner.size()});
    if (here == 0) break;
    // A job of one node takes it only where it fits.
    if (request.nodes == 1 && nodes.size() > 1 && here < static_cast<std::size_t>(left) &&
        std::any_of(nodes.begin(), nodes.end(),
                    [&](const NodeView* other) { return other->gpu_owner.size() >= static_cast<std::size_t>(left); }))
      continue;
    free_gpus_of(ended, *node);
    for (const JobId owner : owners_of(*node, here))
      if (owner != 0 && ended.insert(owner).second) {
        if (const auto job = found.slurm.jobs.find(owner); job != found.slurm.jobs.end())
          for (const Holding& held : job->second.holdings) changed.insert(held.node);
        end_job(found.slurm, owner);
      }
    free_gpus_of(ended, *node);
    Holding own{waiting, node->name, {}};
    for (std::size_t i = 0; i < node->gpu_owner.size() && own.gpus.size() < here; ++i)
      if (node->gpu_owner[i] == 0) {
        node->gpu_owner[i] = waiting;
        own.gpus.push_back(static_cast<int>(i));
      }
    changed.insert(node->name);
    left -= static_cast<int>(own.gpus.size());
    found.own.push_back(std::move(own));
    if (left == 0) break;
  }
  if (left > 0) return std::nullopt;
  for (NodeView& node : cluster.nodes) free_gpus_of(ended, node);
  if (alone) {
    for (auto& [id, job] : found.slurm.jobs)
      if (id != waiting && !job.holdings.empty()) {
        job.state = SlurmJobState::ended;
        job.holdings.clear();
      }
    for (NodeView& node : cluster.nodes) {
      for (JobId& owner : node.gpu_owner)
        if (owner != waiting) owner = 0;
      changed.insert(node.name);
    }
    cluster.waiting.clear();
  }
  for (const std::string& name : changed)
    if (NodeView* node = cluster.find(name)) leave_room(*node);
  SlurmJob& started = found.slurm.jobs.at(waiting);
  started.state = SlurmJobState::running;
  started.started = slurm.time;
  started.holdings = found.own;
  return found;
}

}  // namespace espalier
