#include "planner/sim/base_queue.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/sim/free_gpus.hpp"

namespace espalier::sim {
namespace {

WaitingJob shown(const SimulatedJobState& job, std::size_t place, int node_gpus) {
  WaitingJob waiting;
  waiting.id = job.id;
  waiting.gpus = job.kind->gpus();
  waiting.nodes = (waiting.gpus + node_gpus - 1) / node_gpus;
  waiting.priority = -static_cast<double>(place);
  return waiting;
}

int largest_node(const ClusterView& cluster) {
  std::size_t most = 1;
  for (const NodeView& node : cluster.nodes) most = std::max(most, node.gpu_owner.size());
  return static_cast<int>(most);
}

JobId& owner_of(ClusterView& cluster, const GpuId& gpu) {
  for (NodeView& node : cluster.nodes)
    if (node.name == gpu.node) return node.gpu_owner[static_cast<std::size_t>(gpu.index)];
  throw Error("simulation: no node " + gpu.node);
}

// All nodes with the GPU type of `node`, sorted by name: a job runs on GPUs of one type. Empty: the
// cluster has no other type.
std::vector<std::string> alike(const ClusterView& cluster, const std::string& node) {
  const std::string& type = cluster.find(node)->gpu_type;
  std::vector<std::string> names;
  for (const NodeView& one : cluster.nodes)
    if (one.gpu_type == type) names.push_back(one.name);
  if (names.size() == cluster.nodes.size()) names.clear();
  return names;
}

}  // namespace

double BaseQueue::key(const SimulatedJobState& job) const {
  if (order_ != QueueOrder::sjf) return job.job->submit;
  return job.kind->gpus() * job.kind->step_seconds * job.iterations_left;
}

void BaseQueue::add(const SimulatedJobState& job) {
  const auto before = [this](const SimulatedJobState* a, const SimulatedJobState* b) {
    return std::tuple(key(*a), a->id) < std::tuple(key(*b), b->id);
  };
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), &job, before), &job);
}

void BaseQueue::remove(JobId job) {
  std::erase_if(waiting_, [job](const SimulatedJobState* one) { return one->id == job; });
}

double expected_start(const ClusterView& cluster, const std::vector<JobId>& extensions, int gpus,
                      const std::function<double(JobId)>& end_of) {
  const int node_gpus = largest_node(cluster);
  const auto per_node = static_cast<std::size_t>(std::min(gpus, node_gpus));
  const auto nodes = static_cast<std::size_t>((gpus + node_gpus - 1) / node_gpus);
  // The time from which each node can give per_node GPUs.
  std::vector<double> when;
  std::vector<double> ends;
  for (const NodeView& node : cluster.nodes) {
    if (!node.usable || node.gpu_owner.size() < per_node) continue;
    ends.clear();
    for (const JobId owner : node.gpu_owner) {
      const bool goes = owner == 0 || std::binary_search(extensions.begin(), extensions.end(), owner);
      ends.push_back(goes ? -std::numeric_limits<double>::infinity() : end_of(owner));
    }
    std::nth_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(per_node - 1), ends.end());
    when.push_back(ends[per_node - 1]);
  }
  if (when.size() < nodes) return std::numeric_limits<double>::infinity();
  std::nth_element(when.begin(), when.begin() + static_cast<std::ptrdiff_t>(nodes - 1), when.end());
  return when[nodes - 1];
}

double time_limit(const SimulatedJobState& job) { return kTimeLimit * job.job->iterations * job.kind->step_seconds; }

bool may_pass(ClusterView& cluster, const std::vector<JobId>& extensions, const SimulatedJobState& head,
              const SimulatedJobState& job, const std::vector<GpuId>& gpus, double now,
              const std::function<double(JobId)>& end_of) {
  const double start = expected_start(cluster, extensions, head.kind->gpus(), end_of);
  const double end = now + time_limit(job);
  if (end <= start) return true;
  std::vector<JobId> before;
  for (const GpuId& gpu : gpus) {
    JobId& owner = owner_of(cluster, gpu);
    before.push_back(owner);
    owner = job.id;
  }
  const double later =
      expected_start(cluster, extensions, head.kind->gpus(), [&](JobId id) { return id == job.id ? end : end_of(id); });
  for (std::size_t i = 0; i < gpus.size(); ++i) owner_of(cluster, gpus[i]) = before[i];
  return later <= start;
}

std::vector<WaitingJob> shown_waiting(const BaseQueue& queue, const ClusterView& cluster,
                                      const std::vector<JobId>& extensions, double now,
                                      const std::function<double(JobId)>& end_of) {
  std::vector<WaitingJob> result;
  if (queue.empty()) return result;
  const int node_gpus = largest_node(cluster);
  const auto goes = [&](JobId owner) { return std::binary_search(extensions.begin(), extensions.end(), owner); };
  FreeGpus free(cluster, goes);
  const SimulatedJobState* head = nullptr;
  ClusterView then = queue.backfills() ? cluster : ClusterView{};
  std::map<JobId, double> placed;  // ends of the jobs that are shown and would start
  const auto end_then = [&](JobId id) {
    const auto found = placed.find(id);
    return found != placed.end() ? found->second : end_of(id);
  };
  for (const SimulatedJobState* job : queue.waiting()) {
    WaitingJob one = shown(*job, result.size(), node_gpus);
    const auto place = free.take(one.gpus);
    if (!place && head == nullptr) {
      one.expected_start = expected_start(queue.backfills() ? then : cluster, extensions, one.gpus, end_then);
      result.push_back(one);
      head = job;
      if (!queue.backfills()) break;
      continue;
    }
    if (!place) continue;
    if (head != nullptr && !may_pass(then, extensions, *head, *job, *place, now, end_then)) {
      free.give_back(*place);
      continue;
    }
    one.only_nodes = alike(cluster, place->front().node);
    result.push_back(one);
    if (!queue.backfills()) continue;
    for (const GpuId& gpu : *place) owner_of(then, gpu) = job->id;
    placed[job->id] = now + time_limit(*job);
  }
  return result;
}

}  // namespace espalier::sim
