// Smaller bases: espalierd's Planner::start_smaller() and the launcher's part of it.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/sim/movable_bases.hpp"
#include "planner/sim/simulation_state.hpp"

namespace espalier::sim {
namespace {

// As in planner/daemon.
constexpr std::size_t kMostSmaller = 16;   // jobs in one decision
constexpr double kLeftToSlurmSeconds = 5;  // Slurm has its try at a base first
constexpr double kSmallerRests = 15;       // seconds after a smaller base that did not start; doubled each time
constexpr int kMostFailures = 6;           // that count

}  // namespace

void MovableBases::arrived(const LiveJob& job) {
  if (!has(job)) return;
  ++present_;
  sim_.events_.add({sim_.input_.now + kLeftToSlurmSeconds, EventKind::base, job.state.id, 0});
}

// A waiting job as squeue shows it: with every node that it may use.
WaitingJob MovableBases::shown_whole(const SimulatedJobState& job, std::size_t place) const {
  const auto& cluster = sim_.input_.cluster;
  const auto starts = starts_of(job);
  WaitingJob waiting = shown(job, place, cluster, starts.empty() ? "" : starts.front()->gpu_type);
  std::vector<std::string> nodes = waiting.only_nodes;
  for (std::size_t i = 1; i < starts.size() && !nodes.empty(); ++i) {
    const auto more = shown(job, place, cluster, starts[i]->gpu_type).only_nodes;
    nodes.insert(nodes.end(), more.begin(), more.end());
  }
  std::sort(nodes.begin(), nodes.end());
  waiting.only_nodes = std::move(nodes);
  waiting.left_to_slurm = sim_.preempts() && sim_.input_.now - job.job->submit < kLeftToSlurmSeconds;
  return waiting;
}

// All that wait, in the order of the queue, as espalierd sees them.
std::vector<WaitingJob> MovableBases::waiting() const {
  std::vector<WaitingJob> result;
  for (const SimulatedJobState* job : sim_.queue_.waiting()) result.push_back(shown_whole(*job, result.size()));
  return result;
}

ClusterView MovableBases::seen_with(std::vector<WaitingJob> waiting) const {
  ClusterView cluster;
  cluster.nodes = sim_.input_.cluster.nodes;
  cluster.waiting = std::move(waiting);
  return cluster;
}

// MIN: the user asks for so many GPUs at least as hold the parameters and the optimizer state.
int MovableBases::least_gpus(const LiveJob& job) const {
  double memory = 1;
  for (const BasicPlan* at : starts_of(job.state))
    memory = std::max(memory, sim_.input_.site->hardware.types[static_cast<std::size_t>(at->type)].memory_bytes);
  return std::max(1, static_cast<int>(std::ceil(state_bytes(job.state.kind->coefficients) / memory)));
}

WaitingPlan MovableBases::serve(std::vector<WaitingJob> waiting) const {
  std::swap(sim_.input_.cluster.waiting, waiting);
  WaitingPlan served = serve_waiting(sim_.input_, *moves_->scheduler);
  std::swap(sim_.input_.cluster.waiting, waiting);
  return served;
}

void MovableBases::start_smaller(const std::vector<WaitingJob>& waiting) {
  const double now = sim_.input_.now;
  std::vector<LiveJob*> waits;
  for (auto& [id, job] : sim_.live_)
    if (has(job) && !job.state.plan && now - job.state.job->submit >= kLeftToSlurmSeconds &&
        now >= job.bases.not_before)
      waits.push_back(&job);
  if (waits.empty()) return;
  std::stable_sort(waits.begin(), waits.end(),
                   [](const LiveJob* a, const LiveJob* b) { return a->bases.looked < b->bases.looked; });
  if (waits.size() > kMostSmaller) waits.resize(kMostSmaller);
  const WaitingPlan served = serve(waiting);
  for (LiveJob* job : waits) {
    job->bases.looked = now;
    if (gets_room(job->state.id, seen_with(waiting), served)) continue;
    WaitingBase base{job->state.id, least_gpus(*job), job->state.kind->accuracy == Accuracy::bitwise, {}};
    for (const BasicPlan* at : starts_of(job->state)) base.types.push_back(at->gpu_type);
    try {
      try_smaller(*job, smaller_base(base, seen_with(waiting)));
    } catch (const Error&) {  // there is none
    }
  }
}

void MovableBases::try_smaller(LiveJob& job, const std::vector<ExtensionRequest>& parts) {
  LiveBases& bases = job.bases;
  const JobId id = number_for(job);
  auto base = idle_on(parts, id);
  auto plan = slurm_starts(job, base) ? first_plan_on(job, base) : std::nullopt;
  if (!plan) {
    jobs_.erase(id);
    bases.failures = std::min(bases.failures + 1, kMostFailures);
    bases.not_before = sim_.input_.now + kSmallerRests * (1 << (bases.failures - 1));
    sim_.events_.add({bases.not_before, EventKind::base, job.state.id, 0});
    return;
  }
  bases.id = id;
  bases.waits = bases.started_smaller = true;
  bases.own_plan = plan;
  const double step = sim_.true_step(job, *plan);
  sim_.start_on(job, std::move(*plan), step, std::move(base), sim_.options_.delays.queue_seconds);
}

// The launcher's first plan, by what is measured of its kind, else by data sheets. nullopt: none fits.
std::optional<Plan> MovableBases::first_plan_on(const LiveJob& job, const std::vector<Holding>& base) const {
  ElasticJob elastic = sim_.as_elastic(job);
  elastic.anchor = base;
  const Site& site = *sim_.input_.site;
  const auto measured = sim_.measured_types_.find(job.state.job->kind);
  const bool known = sim_.policy_.shares_profiles() && measured != sim_.measured_types_.end();
  try {
    Plan plan =
        first_plan(elastic, site, known ? *job.state.coefficients : sheet_for(elastic, site), RankOrder::planned).plan;
    if (sim_.feasible(job, plan)) return plan;
  } catch (const Error&) {
  }
  return std::nullopt;
}

std::vector<Holding> MovableBases::idle_on(const std::vector<ExtensionRequest>& parts, JobId base) const {
  std::vector<Holding> held;
  for (const ExtensionRequest& part : parts) {
    const auto& owners = sim_.input_.cluster.find(part.node)->gpu_owner;
    Holding& one = held.emplace_back(Holding{base, part.node, {}});
    for (std::size_t gpu = 0; gpu < owners.size() && static_cast<int>(one.gpus.size()) < part.gpus; ++gpu)
      if (owners[gpu] == 0) one.gpus.push_back(static_cast<int>(gpu));
  }
  return held;
}

// Whether Slurm starts such a base at once. Where others wait only its backfill scheduler does, because they came
// first; a strict queue has none.
bool MovableBases::slurm_starts(const LiveJob& job, const std::vector<Holding>& base) const {
  const BaseQueue& queue = sim_.queue_;
  if (queue.empty()) return true;
  const double now = sim_.input_.now;
  if (queue.is_slurm()) return starts_behind(queue, sim_.start_question(), base, asked_limit(job.state));
  if (!queue.backfills()) return false;
  std::vector<GpuId> gpus;
  for (const Holding& held : base)
    for (const int gpu : held.gpus) gpus.push_back({held.node, gpu});
  return may_pass(sim_.input_.cluster, sim_.input_.extensions, *queue.waiting().front(), job.state, gpus, now,
                  [this](JobId owner) { return sim_.expected_end(owner); });
}

}  // namespace espalier::sim
