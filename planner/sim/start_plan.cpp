#include "planner/sim/start_plan.hpp"

#include <algorithm>
#include <map>

#include "planner/sim/node_timeline.hpp"

namespace espalier::sim {
namespace {

class Pass {
 public:
  explicit Pass(const StartQuestion& question)
      : asked_(question),
        then_(*question.cluster),
        leaving_(*question.leaving),
        timeline_(then_, question.now,
                  [this](JobId owner) { return is_lent(owner) ? asked_.now : asked_.end_of(owner); }) {
    for (std::size_t n = 0; n < then_.nodes.size(); ++n) index_[then_.nodes[n].name] = n;
    look();
  }

  std::vector<PlannedStart> run(const BaseQueue& queue) {
    std::vector<PlannedStart> planned;
    bool blocked = false;
    for (const SimulatedJobState* job : queue.waiting()) {
      if (static_cast<int>(planned.size()) == asked_.most_jobs) break;
      if (blocked && free_.back().count() == 0) break;
      planned.push_back(plan(*job));
      blocked = blocked || !planned.back().place;
    }
    return planned;
  }

  // After run().
  bool has_room(const std::vector<Holding>& gpus, double seconds) const {
    return std::all_of(gpus.begin(), gpus.end(), [&](const Holding& held) {
      const std::size_t node = index_.at(held.node);
      const auto& owners = then_.nodes[node].gpu_owner;
      return !timeline_.is_reserved(node, asked_.now + seconds) &&
             std::all_of(held.gpus.begin(), held.gpus.end(),
                         [&](int gpu) { return owners[static_cast<std::size_t>(gpu)] == 0; });
    });
  }

 private:
  bool is_lent(JobId owner) const {
    return std::binary_search(asked_.extensions->begin(), asked_.extensions->end(), owner);
  }

  // The GPUs that are idle; those and what leaves; those and all that is lent.
  void look() {
    free_.clear();
    const auto passing = [this](JobId owner) { return is_lent(owner); };
    free_.emplace_back(then_, FreeGpus::Owners{}, passing);
    if (asked_.extensions->empty()) return;
    if (!leaving_.empty())
      free_.emplace_back(
          then_, [this](JobId owner) { return leaving_.contains(owner); }, passing);
    free_.emplace_back(then_, passing);
  }

  int largest_node(const NodeTimeline::Slot& slot) const {
    return static_cast<int>(then_.nodes[slot.nodes.front()].gpu_owner.size());
  }

  PlannedStart plan(const SimulatedJobState& job) {
    PlannedStart planned;
    planned.job = &job;
    const double limit = asked_limit(job), end = asked_.now + limit;
    NodeTimeline::Slot first;
    bool uneven = false;
    for (const BasicPlan* at : starts_of(job)) {
      auto slot = timeline_.earliest(job.kind->gpus(), at->gpu_type, limit);
      uneven = uneven || (slot.nodes.size() > 1 && job.kind->gpus() % largest_node(slot) != 0);
      if (slot.start < first.start) first = std::move(slot), planned.start = {first.start, at->gpu_type};
    }
    // On several nodes a job may also fit where the last one is not wholly free.
    if (first.start <= asked_.now || uneven) {
      place(job, end, planned);
      if (planned.place) {
        leaving_.insert(planned.preempted.begin(), planned.preempted.end());
        hold(job, *planned.place, end);
        return planned;
      }
    }
    if (!first.nodes.empty()) timeline_.reserve(first, limit);
    return planned;
  }

  void place(const SimulatedJobState& job, double end, PlannedStart& planned) {
    if (free_.back().count() < job.kind->gpus()) return;
    std::vector<std::size_t> closed;
    for (std::size_t n = 0; n < then_.nodes.size(); ++n)
      if (timeline_.is_reserved(n, end)) closed.push_back(n);
    for (std::size_t level = 0; level < free_.size() && !planned.place; ++level) {
      for (const std::size_t n : closed) free_[level].close(n);
      const bool lent = level > 0 && level + 1 == free_.size();
      if (lent && asked_.preempt != Preemption::none) preempt_for(job, closed, planned);
      else planned.place = take_for(free_[level], job);
      if (planned.place) planned.idle = level == 0;
      for (const std::size_t n : closed) free_[level].open(n);
    }
  }

  // Slurm's choice, on the nodes that the job may use.
  void preempt_for(const SimulatedJobState& job, const std::vector<std::size_t>& closed, PlannedStart& planned) {
    std::vector<JobId> candidates;
    for (const JobId extension : *asked_.extensions)
      if (!leaving_.contains(extension)) candidates.push_back(extension);
    if (asked_.preempt == Preemption::youngest) std::reverse(candidates.begin(), candidates.end());
    std::vector<bool> usable;
    for (const std::size_t n : closed) {
      usable.push_back(then_.nodes[n].usable);
      then_.nodes[n].usable = false;
    }
    for (const BasicPlan* at : starts_of(job)) {
      planned.preempted = preempted_for(then_, job.kind->gpus(), candidates, leaving_, at->gpu_type);
      if (planned.preempted.empty()) continue;
      std::set<JobId> gone = leaving_;
      gone.insert(planned.preempted.begin(), planned.preempted.end());
      planned.place =
          FreeGpus(then_, [&](JobId owner) { return gone.contains(owner); }).take(job.kind->gpus(), at->gpu_type);
      if (planned.place) break;
      planned.preempted.clear();
    }
    for (std::size_t i = 0; i < closed.size(); ++i) then_.nodes[closed[i]].usable = usable[i];
  }

  // The GPUs are the job's for the rest of the pass.
  void hold(const SimulatedJobState& job, const std::vector<GpuId>& gpus, double end) {
    std::map<std::size_t, int> by_node;
    for (const GpuId& gpu : gpus) {
      const std::size_t node = index_.at(gpu.node);
      ++by_node[node];
      then_.nodes[node].gpu_owner[static_cast<std::size_t>(gpu.index)] = job.id;
    }
    for (const auto& [node, count] : by_node) timeline_.occupy(node, count, end);
    look();
  }

  const StartQuestion& asked_;
  ClusterView then_;
  std::set<JobId> leaving_;
  NodeTimeline timeline_;
  std::map<std::string, std::size_t> index_;  // of nodes
  std::vector<FreeGpus> free_;
};

}  // namespace

std::vector<PlannedStart> plan_starts(const BaseQueue& queue, const StartQuestion& question) {
  if (queue.empty()) return {};
  return Pass(question).run(queue);
}

bool starts_behind(const BaseQueue& queue, const StartQuestion& question, const std::vector<Holding>& gpus,
                   double seconds) {
  Pass pass(question);
  pass.run(queue);
  return pass.has_room(gpus, seconds);
}

std::vector<WaitingJob> shown_planned(const std::vector<PlannedStart>& planned, const ClusterView& cluster) {
  std::vector<WaitingJob> result;
  bool blocked = false;
  for (const PlannedStart& one : planned) {
    if (!one.place && blocked) continue;
    const std::string& type = one.place ? cluster.find(one.place->front().node)->gpu_type : one.start.gpu_type;
    result.push_back(shown(*one.job, result.size(), cluster, type));
    if (one.place) continue;
    result.back().expected_start = one.start.time;
    blocked = true;
  }
  return result;
}

}  // namespace espalier::sim
