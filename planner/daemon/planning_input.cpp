#include "planner/daemon/planning_input.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "planner/core/schedule/gpu_type.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/daemon/objective_weights.hpp"

namespace espalier {
namespace {

constexpr double kLeastWeight = 0.01;  // a user who has used far too much still counts for something

// What a Slurm job holds, by node. A job may have thousands of nodes.
using HeldByNode = std::multimap<std::string_view, const Holding*>;

HeldByNode by_node(const SlurmJob& job) {
  HeldByNode result;
  for (const Holding& held : job.holdings) result.emplace(held.node, &held);
  return result;
}

// The GPUs of `claim` that are in `known`, in the claimed order.
void add_confirmed(const Holding& claim, const HeldByNode& known, std::vector<Holding>& confirmed) {
  const auto [first, last] = known.equal_range(claim.node);
  for (auto at = first; at != last; ++at) {
    const std::vector<int>& held = at->second->gpus;
    Holding both{claim.job, claim.node, {}};
    for (const int gpu : claim.gpus)
      if (std::find(held.begin(), held.end(), gpu) != held.end()) both.gpus.push_back(gpu);
    if (!both.gpus.empty()) confirmed.push_back(std::move(both));
  }
}

// The GPUs of `claimed` that Slurm says `job` holds, in the claimed order.
std::vector<Holding> confirmed_holdings(const std::vector<Holding>& claimed, const SlurmJob& job) {
  std::vector<Holding> result;
  const HeldByNode known = by_node(job);
  for (const Holding& claim : claimed)
    if (claim.job == job.id) add_confirmed(claim, known, result);
  return result;
}

bool is_base_of(const SlurmJob& base, const ElasticJob& job) {
  return base.uid == job.uid && base.state == SlurmJobState::running && submitted_of_base(base.comment) == job.id;
}

// Marks GPUs as taken that an open growth was promised and Slurm has not granted yet.
void take_promised(ClusterView& cluster, const LentJobs& lent, const LiveJob& live) {
  auto granted = lent.granted_since(live);
  for (const ExtensionRequest& request : live.open->decision.acquire) {
    NodeView* node = cluster.find(request.node);
    int left = request.gpus - granted[request.node];
    if (node == nullptr || left <= 0) continue;
    for (JobId& owner : node->gpu_owner)
      if (owner == 0 && left > 0) {
        owner = live.job.id;
        --left;
      }
    node->free_cpus = std::max(0, node->free_cpus - request.cpus);
    node->free_memory_mb = std::max(0L, node->free_memory_mb - request.memory_mb);
  }
}

// `released`: the extensions that all open decisions release.
void free_released(ClusterView& cluster, const std::set<JobId>& released) {
  if (released.empty()) return;
  for (NodeView& node : cluster.nodes)
    for (std::size_t i = 0; i < node.gpu_owner.size(); ++i) {
      const int index = static_cast<int>(i);
      if (released.contains(node.gpu_owner[i]) &&
          std::find(node.freeing.begin(), node.freeing.end(), index) == node.freeing.end())
        node.freeing.push_back(index);
    }
}

bool is_extension_of(const SlurmJob& extension, const SlurmJob& anchor) {
  return extension.uid == anchor.uid && extension.state == SlurmJobState::running &&
         anchor_of_comment(extension.comment) == anchor.id;
}

// Slurm has told an extension to leave. The launcher is then shrinking by itself.
bool is_being_preempted(const ElasticJob& job, const SlurmSnapshot& slurm) {
  return std::any_of(job.extensions.begin(), job.extensions.end(), [&](const Holding& held) {
    const SlurmJob* extension = slurm.alive(held.job);
    return extension != nullptr && extension->preempted;
  });
}

}  // namespace

bool is_suspended(const ElasticJob& job, const SlurmSnapshot& slurm) {
  const auto stands = [&](JobId id) {
    const SlurmJob* const one = slurm.alive(id);
    return one != nullptr && one->uid == job.uid && one->suspended;
  };
  if (stands(job.id) || stands(base_of(job))) return true;
  return std::any_of(job.extensions.begin(), job.extensions.end(),
                     [&](const Holding& held) { return stands(held.job); });
}

LentJobs::LentJobs(const SlurmSnapshot& slurm) {
  for (const auto& [id, job] : slurm.jobs) {
    if (job.state != SlurmJobState::running) continue;
    for (const JobId of : {anchor_of_comment(job.comment), submitted_of_base(job.comment)})
      if (of != 0) by_job_[of].push_back(&job);
  }
}

std::map<std::string, int> LentJobs::granted_since(const LiveJob& live) const {
  std::map<std::string, int> sums;
  const auto found = by_job_.find(live.job.id);
  if (found == by_job_.end()) return sums;
  for (const SlurmJob* const job : found->second) {
    if (job->uid != live.job.uid || live.before.contains(job->id)) continue;
    for (const Holding& held : job->holdings) sums[held.node] += static_cast<int>(held.gpus.size());
  }
  return sums;
}

int most_by_account(const ElasticJob& confirmed, const AccountLimits& limits, const SlurmJob& anchor) {
  const auto limit = limits.of(anchor);
  if (!limit) return confirmed.max_gpus;
  return std::min(confirmed.max_gpus, gpus_of(confirmed.anchor) + gpus_of(confirmed.extensions) + limit->left());
}

ElasticJob confirmed(const ElasticJob& job, const SlurmSnapshot& slurm, int max_gpus) {
  ElasticJob result = job;
  result.max_gpus = std::min(job.max_gpus, max_gpus);
  result.anchor.clear();
  result.extensions.clear();
  const SlurmJob* anchor = slurm.alive(job.id);
  if (anchor == nullptr) return result;
  if (const JobId id = base_of(job); id == 0) result.anchor = confirmed_holdings(job.anchor, *anchor);
  else if (const SlurmJob* base = slurm.alive(id); base != nullptr && is_base_of(*base, result))
    result.anchor = confirmed_holdings(job.anchor, *base);
  std::map<JobId, HeldByNode> known;  // by extension: nothing where Slurm does not confirm it
  for (const Holding& claim : job.extensions) {
    const auto [at, fresh] = known.try_emplace(claim.job);
    const SlurmJob* const extension = fresh ? slurm.alive(claim.job) : nullptr;
    if (extension != nullptr && is_extension_of(*extension, *anchor)) at->second = by_node(*extension);
    add_confirmed(claim, at->second, result.extensions);
  }
  return result;
}

ElasticJob with_unfit(ElasticJob job) {
  const JobId base = base_of(job), own = base == 0 ? job.id : base;
  for (const GpuId& gpu : job.unfit) {
    auto at = std::find_if(job.anchor.begin(), job.anchor.end(),
                           [&](const Holding& held) { return held.job == own && held.node == gpu.node; });
    if (at == job.anchor.end()) at = job.anchor.insert(at, {own, gpu.node, {}});
    if (std::find(at->gpus.begin(), at->gpus.end(), gpu.index) == at->gpus.end()) at->gpus.push_back(gpu.index);
  }
  return job;
}

std::set<std::string> held_nodes(const ElasticJob& job) {
  std::set<std::string> held;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& one : *holdings) held.insert(one.node);
  return held;
}

std::string kept_type(const ElasticJob& job, const ClusterView& cluster) {
  return keeps_gpu_type(job) ? gpu_type_of(job, cluster) : "";
}

OpenNodes::OpenNodes(const SlurmSnapshot& slurm, NodeFindings findings, const ExtensionRules& rules)
    : slurm_(slurm), closed_(slurm, rules), findings_(findings) {}

NodeNames OpenNodes::closed_to(const LiveJob& live, const ElasticJob& job, const SlurmJob& anchor) {
  NodeNames closed = closed_.to(anchor, {kept_type(job, slurm_.cluster), live.types, live.movable});
  std::vector<std::string> more;
  if (findings_.slow != nullptr)
    for (const auto& [node, share] : findings_.slow->of(live.job.uid, slurm_.time)) more.push_back(node);
  if (findings_.unfit != nullptr)
    for (const std::string& node : findings_.unfit->of(live.job.uid, job.id, slurm_.time)) more.push_back(node);
  if (findings_.links != nullptr) {
    for (std::string& node : findings_.links->closed_to(live.job.uid, held_nodes(job), slurm_.time))
      more.push_back(std::move(node));
  }
  for (const auto& [node, until] : live.avoided)
    if (until > slurm_.time) more.push_back(node);
  if (more.empty()) return closed;
  if (closed) more.insert(more.end(), closed->begin(), closed->end());
  std::sort(more.begin(), more.end());
  more.erase(std::unique(more.begin(), more.end()), more.end());
  return std::make_shared<const std::vector<std::string>>(std::move(more));
}

PlanningInput make_input(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs, Trigger trigger,
                         const PlanningContext& context) {
  PlanningInput input;
  input.now = slurm.time;
  input.trigger = trigger;
  input.cluster = slurm.cluster;
  for (const LimitWaits::Wait& one : context.limit_waits) {
    input.cluster.waiting.push_back(one.job);
    input.counted[one.job.id] = one.counted;
  }
  input.site = context.site;
  input.arrivals = context.arrivals;
  for (const auto& [id, job] : slurm.jobs)
    if (job.partition == context.partition && anchor_of_comment(job.comment) != 0) input.extensions.push_back(id);
  OpenNodes open(slurm, context.findings, context.rules);
  const WaitedLimits waits(slurm);
  const AccountLimits limits(slurm, jobs, context.rules.share, context.partition);
  const LentJobs lent(slurm);
  std::set<JobId> released;
  for (const auto& [id, live] : jobs) {
    if (live.last_change) input.last_change[id] = *live.last_change;
    if (live.pause_seconds) input.redeploy_seconds[id] = *live.pause_seconds;
    if (live.start_seconds) input.start_seconds[id] = *live.start_seconds;
    if (live.open) {
      if (live.job.phase == JobPhase::running || live.job.phase == JobPhase::acquiring ||
          live.job.phase == JobPhase::launching)
        take_promised(input.cluster, lent, live);
      released.insert(live.open->decision.release.begin(), live.open->decision.release.end());
    }
    // What it was lent is taken back for others all the same after its growths have failed.
    const bool rests = live.not_before > slurm.time;
    if (!live.link || live.open || (rests && live.failed_to_shrink)) continue;
    ElasticJob job = confirmed(live.job, slurm, context.max_gpus);
    if (job.anchor.empty() || is_being_preempted(job, slurm) || is_suspended(job, slurm)) continue;
    const SlurmJob& anchor = *slurm.alive(id);
    if (NodeNames names = open.closed_to(live, job, anchor)) input.closed[id] = std::move(names);
    job.held =
        job.held || rests || live.grow_not_before > slurm.time || !barred(anchor, slurm, context.rules, waits).empty();
    job.max_gpus = most_by_account(job, limits, anchor);
    if (context.rules.share.fair_share && anchor.fair_share)
      input.weights[id] = std::max(*anchor.fair_share, kLeastWeight);
    for (const ObjectiveWeight& one : objective_weights(anchor, slurm, context.objective))
      input.weights.try_emplace(id, 1).first->second *= one.factor;
    if (live.trials.measured.size() + live.trials.begun.size() > 1) input.tuned.insert(id);
    if (anchor.submitted > 0) input.submitted[id] = anchor.submitted;
    if (context.site)
      if (auto known = live.profiles.coefficients(*context.site)) input.coefficients[id] = std::move(*known);
    input.jobs.push_back(std::move(job));
  }
  free_released(input.cluster, released);
  return input;
}

}  // namespace espalier
