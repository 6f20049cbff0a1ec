#include "planner/sim/base_queue.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "planner/core/error.hpp"

namespace espalier::sim {
namespace {

int largest_node(const ClusterView& cluster, const std::string& gpu_type) {
  std::size_t most = 1;
  for (const NodeView& node : cluster.nodes)
    if (gpu_type.empty() || node.gpu_type == gpu_type) most = std::max(most, node.gpu_owner.size());
  return static_cast<int>(most);
}

JobId& owner_of(ClusterView& cluster, const GpuId& gpu) {
  for (NodeView& node : cluster.nodes)
    if (node.name == gpu.node) return node.gpu_owner[static_cast<std::size_t>(gpu.index)];
  throw Error("simulation: no node " + gpu.node);
}

// All nodes with this GPU type, sorted by name: a job's own GPUs are of one type. Empty: the cluster
// has no other type.
std::vector<std::string> nodes_with(const ClusterView& cluster, const std::string& gpu_type) {
  std::vector<std::string> names;
  for (const NodeView& one : cluster.nodes)
    if (one.gpu_type == gpu_type) names.push_back(one.name);
  if (names.size() == cluster.nodes.size()) names.clear();
  return names;
}

double start_on(const ClusterView& cluster, const std::vector<JobId>& extensions, int gpus, const std::string& gpu_type,
                const std::function<double(JobId)>& end_of) {
  const int node_gpus = largest_node(cluster, gpu_type);
  const auto per_node = static_cast<std::size_t>(std::min(gpus, node_gpus));
  const auto nodes = static_cast<std::size_t>((gpus + node_gpus - 1) / node_gpus);
  // The time from which each node can give per_node GPUs.
  std::vector<double> when;
  std::vector<double> ends;
  for (const NodeView& node : cluster.nodes) {
    if (!node.usable || node.gpu_type != gpu_type || node.gpu_owner.size() < per_node) continue;
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

}  // namespace

WaitingJob shown(const SimulatedJobState& job, std::size_t place, const ClusterView& cluster,
                 const std::string& gpu_type) {
  const int node_gpus = largest_node(cluster, gpu_type);
  WaitingJob waiting;
  waiting.id = job.id;
  waiting.gpus = job.kind->gpus();
  waiting.nodes = (waiting.gpus + node_gpus - 1) / node_gpus;
  waiting.priority = -static_cast<double>(place);
  waiting.only_nodes = nodes_with(cluster, gpu_type);
  return waiting;
}

std::string to_string(QueueOrder order) {
  switch (order) {
    case QueueOrder::sjf:
      return "sjf";
    case QueueOrder::backfill:
      return "backfill";
    case QueueOrder::slurm:
      return "slurm";
    default:
      return "fifo";
  }
}

// Of equal priority the job that was submitted first, then the lower id (slurm.conf(5), PriorityType).
void BaseQueue::turn_to(double now) {
  if (!is_slurm() || waiting_.size() < 2) return;
  std::vector<std::tuple<double, double, JobId, const SimulatedJobState*>> sorted;
  sorted.reserve(waiting_.size());
  for (const SimulatedJobState* job : waiting_)
    sorted.emplace_back(-priority_->of(*job, now), job->job->submit, job->id, job);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) waiting_[i] = std::get<3>(sorted[i]);
}

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

std::vector<const BasicPlan*> starts_of(const SimulatedJobState& job) {
  std::vector<const BasicPlan*> starts;
  for (const BasicPlan& at : job.kind->on)
    if (job.job->type < 0 || at.type == job.job->type) starts.push_back(&at);
  return starts;
}

std::optional<std::vector<GpuId>> take_for(FreeGpus& free, const SimulatedJobState& job) {
  for (const BasicPlan* at : starts_of(job))
    if (auto gpus = free.take(job.kind->gpus(), at->gpu_type)) return gpus;
  return std::nullopt;
}

ExpectedStart expected_start(const ClusterView& cluster, const std::vector<JobId>& extensions,
                             const SimulatedJobState& job, const std::function<double(JobId)>& end_of) {
  ExpectedStart first;
  for (const BasicPlan* at : starts_of(job)) {
    const double time = start_on(cluster, extensions, job.kind->gpus(), at->gpu_type, end_of);
    if (time < first.time) first = {time, at->gpu_type};
  }
  return first;
}

double time_limit(const SimulatedJobState& job) {
  double step = job.kind->step_seconds;
  for (const BasicPlan* at : starts_of(job)) step = std::max(step, at->step_seconds);
  if (const BasicPlan* at = job.started_on >= 0 ? job.kind->on_type(job.started_on) : nullptr) step = at->step_seconds;
  return kTimeLimit * job.job->iterations * step;
}

double asked_limit(const SimulatedJobState& job) {
  return job.job->time_limit > 0 ? job.job->time_limit : time_limit(job);
}

bool may_pass(ClusterView& cluster, const std::vector<JobId>& extensions, const SimulatedJobState& head,
              const SimulatedJobState& job, const std::vector<GpuId>& gpus, double now,
              const std::function<double(JobId)>& end_of) {
  const double start = expected_start(cluster, extensions, head, end_of).time;
  const double end = now + time_limit(job);
  if (end <= start) return true;
  std::vector<JobId> before;
  for (const GpuId& gpu : gpus) {
    JobId& owner = owner_of(cluster, gpu);
    before.push_back(owner);
    owner = job.id;
  }
  const double later =
      expected_start(cluster, extensions, head, [&](JobId id) { return id == job.id ? end : end_of(id); }).time;
  for (std::size_t i = 0; i < gpus.size(); ++i) owner_of(cluster, gpus[i]) = before[i];
  return later <= start;
}

std::vector<WaitingJob> shown_waiting(const BaseQueue& queue, const ClusterView& cluster,
                                      const std::vector<JobId>& extensions, double now,
                                      const std::function<double(JobId)>& end_of) {
  std::vector<WaitingJob> result;
  if (queue.empty()) return result;
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
    const auto place = take_for(free, *job);
    if (!place && head == nullptr) {
      const ExpectedStart start = expected_start(queue.backfills() ? then : cluster, extensions, *job, end_then);
      WaitingJob one = shown(*job, result.size(), cluster, start.gpu_type);
      one.expected_start = start.time;
      result.push_back(std::move(one));
      head = job;
      if (!queue.backfills()) break;
      continue;
    }
    if (!place) continue;
    if (head != nullptr && !may_pass(then, extensions, *head, *job, *place, now, end_then)) {
      free.give_back(*place);
      continue;
    }
    result.push_back(shown(*job, result.size(), cluster, cluster.find(place->front().node)->gpu_type));
    if (!queue.backfills()) continue;
    for (const GpuId& gpu : *place) owner_of(then, gpu) = job->id;
    placed[job->id] = now + time_limit(*job);
  }
  return result;
}

}  // namespace espalier::sim
