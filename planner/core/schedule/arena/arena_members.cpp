#include "planner/core/schedule/arena/arena_members.hpp"

#include <algorithm>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/arena/scaling_step.hpp"
#include "planner/core/schedule/gpu_type.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/neutral_site.hpp"

namespace espalier {
namespace {

int gpus_of(const std::vector<NodeGpus>& gpus) {
  std::size_t sum = 0;
  for (const NodeGpus& one : gpus) sum += one.gpus.size();
  return static_cast<int>(sum);
}

// The type of all of the job's basic GPUs; -1: they are of several.
int type_of_base(const ElasticJob& job, const Site& site) {
  int type = -1;
  for (const Holding& held : job.anchor) {
    const int node = site.topology.find(held.node);
    if (node < 0) return -1;
    const auto& types = site.topology.gpu_types(node);
    for (const int gpu : held.gpus) {
      if (gpu < 0 || static_cast<std::size_t>(gpu) >= types.size()) return -1;
      if (type >= 0 && types[static_cast<std::size_t>(gpu)] != type) return -1;
      type = types[static_cast<std::size_t>(gpu)];
    }
  }
  return type;
}

bool same_pools(const std::vector<GpuPool>& a, const std::vector<GpuPool>& b) {
  return std::ranges::equal(a, b, [](const GpuPool& one, const GpuPool& other) {
    return one.type == other.type && one.nodes == other.nodes;
  });
}

}  // namespace

// Places of estimates follow from the usable nodes.
void ArenaMembers::turn_to(const PlanningInput& input) {
  const auto site = input.site ? input.site : neutral_site(input.cluster);
  auto pools = gpu_pools(input.cluster, *site);
  if (site != site_ || !same_pools(pools, pools_)) books_.clear();
  site_ = site;
  pools_ = std::move(pools);
}

std::vector<ArenaMember> ArenaMembers::enter(const PlanningInput& input, std::vector<Weighed>& weighed) {
  turn_to(input);
  std::vector<const ElasticJob*> running;
  for (const ElasticJob& job : input.jobs)
    if (job.phase == JobPhase::running && job.plan) running.push_back(&job);
  std::sort(running.begin(), running.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  KnownJobs kept;
  std::vector<ArenaMember> members;
  members.reserve(running.size());
  used_.clear();
  for (const ElasticJob* const job : running) {
    auto& slot = kept[job->id];
    slot = kept_or_made(known_, *job, input, site_, false, stage_books_);
    if (slot) members.push_back(member(*job, *slot, input));
    else weighed.push_back({job->id, 0, 0, 0, "its plan cannot be scored on this cluster", std::nullopt});
  }
  known_ = std::move(kept);
  books_ = std::move(used_);
  return members;
}

ArenaMember ArenaMembers::member(const ElasticJob& job, VirtualJob& known, const PlanningInput& input) {
  ArenaMember one;
  Player& player = one.player;
  player.job = &job;
  player.virtual_job = &known;
  player.first_ms = known.present().ms;
  player.first_exact = known.evaluator().exact_sketch(known.present().sketch);
  player.base_exact = player.first_exact;
  player.first_size = known.size_of(known.held());
  player.first_gpus = known.present().sketch.gpus();
  player.first_held = known.held();
  one.book = &book_of(known);
  for (const Holding& held : job.anchor) one.basic += static_cast<int>(held.gpus.size());
  one.held = gpus_of(known.held());
  one.most = buddy_count(known.problem().bounds.max_gpus, one.basic);
  if (job.step_seconds > 0) one.measured_per_model = player.first_exact / (1000 * job.step_seconds);
  if (const auto weight = input.weights.find(job.id); weight != input.weights.end()) one.weight = weight->second;
  const auto movable = std::lower_bound(input.movable.begin(), input.movable.end(), job.id,
                                        [](const MovableJob& a, JobId id) { return a.id < id; });
  if (movable != input.movable.end() && movable->id == job.id && !keeps_gpu_type(job)) one.movable = &*movable;
  const int type = type_of_base(job, *site_);
  for (std::size_t p = 0; p < pools_.size(); ++p)
    if (pools_[p].type == type) one.pool = static_cast<int>(p);
  one.why_not = why_not(job, input);
  if (one.why_not.empty() && type < 0) one.why_not = "its own GPUs are of several types, and this policy keeps to one";
  else if (one.why_not.empty() && one.pool < 0) one.why_not = "no GPUs of its type are lent";
  one.scales = one.why_not.empty();
  return one;
}

std::string ArenaMembers::why_not(const ElasticJob& job, const PlanningInput& input) const {
  if (job.held) return "it is held";
  const bool sizes_known = job.model.layers > 0 && (!data_parallel_only(job) || input.coefficients.contains(job.id));
  if (!sizes_known || job.step_seconds <= 0) return "it was not measured on its present plan yet";
  const auto last = input.last_change.find(job.id);
  if (last != input.last_change.end() && input.now - last->second < options_.cooldown_seconds)
    return "it was changed a moment ago";
  return "";
}

// Similar jobs share a book.
ProxyBook& ArenaMembers::book_of(const VirtualJob& job) {
  const Problem& problem = job.problem();
  for (auto* const books : {&used_, &books_})
    for (const auto& one : *books)
      if (one->is_for(problem.job, problem.bounds, problem.forms)) {
        if (books == &books_) used_.push_back(one);
        return *one;
      }
  return *used_.emplace_back(std::make_shared<ProxyBook>(site_, problem.job, problem.bounds, problem.forms));
}

double ArenaMembers::throughput(const ArenaMember& member, const PlanningInput& input, int pool, int gpus) const {
  // A count that is no power of two, as a basic demand may be, counts as the next lower one.
  const double estimate = member.measured_per_model * member.book->throughput(pools_[static_cast<std::size_t>(pool)],
                                                                              input.cluster, buddy_count(gpus, 1));
  if (pool != member.pool || gpus != member.held || member.job().step_seconds <= 0) return estimate;
  // What it does now is known. It may be less than it could on these GPUs.
  return std::max(estimate, member.player.virtual_job->problem().job.global_batch / member.job().step_seconds);
}

}  // namespace espalier
