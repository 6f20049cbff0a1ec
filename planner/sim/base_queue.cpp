#include "planner/sim/base_queue.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

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
  if (order_ == QueueOrder::fifo) return job.job->submit;
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

std::vector<WaitingJob> shown_waiting(const BaseQueue& queue, const ClusterView& cluster,
                                      const std::vector<JobId>& extensions,
                                      const std::function<double(JobId)>& end_of) {
  std::vector<WaitingJob> result;
  if (queue.empty()) return result;
  const int node_gpus = largest_node(cluster);
  FreeGpus free(cluster, [&](JobId owner) { return std::binary_search(extensions.begin(), extensions.end(), owner); });
  for (const SimulatedJobState* job : queue.waiting()) {
    result.push_back(shown(*job, result.size(), node_gpus));
    if (const auto place = free.take(result.back().gpus)) {
      result.back().only_nodes = alike(cluster, place->front().node);
      continue;
    }
    result.back().expected_start = expected_start(cluster, extensions, result.back().gpus, end_of);
    break;
  }
  return result;
}

}  // namespace espalier::sim
