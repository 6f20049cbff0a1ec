#include "planner/daemon/growth_obstacles.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "planner/core/data_parallel.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/daemon/account_limits.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/private_jobs.hpp"
#include "planner/daemon/share_words.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostFaults = 8;

std::string sentence(const Weighed& weighed) {
  if (weighed.gpus == 0) return weighed.verdict;
  char text[120];
  std::snprintf(text, sizeof text, " (%.3g with %d more GPUs, the threshold is %.3g)", weighed.benefit, weighed.gpus,
                weighed.threshold);
  return weighed.verdict + text;
}

// One sentence for each fault that the site's health check found. Takes the nodes with faults out of `closed`.
std::vector<std::string> health_sentences(const ClusterView& cluster, std::vector<std::string>& closed) {
  std::map<std::string, std::vector<std::string>> nodes;  // by fault
  std::erase_if(closed, [&](const std::string& name) {
    const NodeView* node = cluster.find(name);
    if (node == nullptr || node->unhealthy.empty()) return false;
    nodes[node->unhealthy].push_back(name);
    return true;
  });
  std::vector<std::string> sentences;
  for (const auto& [fault, names] : nodes)
    sentences.push_back("the site's health check keeps " + fold_hosts(names) + " from being lent: " + fault);
  if (sentences.size() <= kMostFaults) return sentences;
  const std::string more = std::to_string(sentences.size() - kMostFaults);
  sentences.resize(kMostFaults);
  sentences.push_back("the site's health check names " + more + " more faults; see espalier show nodes");
  return sentences;
}

std::string closed_sentence(const std::vector<std::string>& names, const std::map<std::string, std::string>& kept) {
  std::string text = "its extensions cannot be on " + fold_hosts(names) + ": ";
  if (kept.empty())
    return text + "these lack its constraint, a reservation is in the way, or Slurm keeps them for another user's jobs";
  return text + "a job of QOS " + kept.begin()->second + ", which may not preempt extensions, waits for " +
         (kept.size() < names.size() ? "some of these; the others lack its constraint, a reservation is in the way, or "
                                       "Slurm keeps them for another user's jobs"
                                     : "these");
}

}  // namespace

std::vector<std::string> growth_obstacles(const JobView& live, const std::map<JobId, LiveJob>& jobs,
                                          const SlurmSnapshot* slurm, const Weighed* weighed,
                                          const PlannerSettings& settings, double now) {
  std::vector<std::string> list;
  const ElasticJob& job = live.job;
  const int limit = std::min(job.max_gpus, settings.max_gpus);
  if (settings.shadow) list.push_back("the planner runs with --shadow: it decides but acts on nothing");
  if (!live.connected) list.push_back("its launcher is not connected");
  if (live.open) list.push_back("decision " + std::to_string(*live.open) + " is under way");
  if (job.phase != JobPhase::running) list.push_back("its phase is " + to_string(job.phase) + ", not running");
  if (job.held) list.push_back("it is held; `espalier release " + std::to_string(job.id) + "` lets it grow");
  if (job.model.layers <= 0) list.push_back("its workers have not reported a model");
  if (data_parallel_only(job) && !live.known)
    list.push_back(
        "its model is not known, and its workers have not sent a profile yet; espalier-worker(7) tells what one is");
  if (job.step_seconds <= 0) list.push_back("no step has been measured on its present plan");
  if (gpus_of(job.anchor) + gpus_of(job.extensions) >= limit)
    list.push_back("it holds its maximum of " + std::to_string(limit) + " GPUs");
  if (live.last_change && now - *live.last_change < settings.scheduler.cooldown_seconds) {
    const double left = settings.scheduler.cooldown_seconds - (now - *live.last_change);
    list.push_back("it was reconfigured a short while ago; " + std::to_string(std::lround(std::ceil(left))) +
                   " s of its cooldown are left");
  }
  if (live.not_before > now)
    list.push_back("the last " + std::to_string(live.failures) + " decision(s) about it failed; the next try is in " +
                   std::to_string(std::lround(std::ceil(live.not_before - now))) + " s");
  std::vector<std::string> avoided;
  for (const auto& [node, until] : live.avoided)
    if (until > now) avoided.push_back(node);
  if (!avoided.empty())
    list.push_back("a growth onto " + fold_hosts(avoided) +
                   " made its steps slower; it gets no GPUs there for up to an hour");
  if (!live.slow.empty())
    list.push_back(
        fold_hosts(live.slow) +
        ": jobs of its user measured there that GPUs are slower than their like; it gets no GPUs there for up "
        "to an hour");
  if (!live.behind_slow_links.empty())
    list.push_back(fold_hosts(live.behind_slow_links) +
                   ": jobs of its user measured links there that are slower than their like; it gets no GPUs there for "
                   "up to an hour");
  if (live.grow_not_before > now)
    list.push_back("its last growth made its steps slower and was taken back; it may grow again in " +
                   std::to_string(std::lround(std::ceil(live.grow_not_before - now))) + " s");
  if (weighed != nullptr) list.push_back(sentence(*weighed));
  if (slurm == nullptr) {
    list.push_back("Slurm has not answered yet");
    return list;
  }
  if (is_suspended(job, *slurm))
    list.push_back("Slurm has suspended it, its base or an extension of it; `scontrol resume` lets it go on");
  if (const SlurmJob* anchor = slurm->alive(job.id)) {
    if (const std::string why = barred(*anchor, *slurm, settings.rules); !why.empty())
      list.push_back(without_jobs_of_others(why, *slurm, anchor->uid));
    if (const std::string kept = kept_type(job, slurm->cluster);
        !kept.empty() && std::any_of(slurm->cluster.nodes.begin(), slurm->cluster.nodes.end(),
                                     [&](const NodeView& node) { return node.gpu_type != kept; }))
      list.push_back("accuracy=bitwise keeps it on GPUs of type " + kept + ", as others may round differently");
    ClosedNodes closed(*slurm, settings.rules);
    if (const NodeNames names = closed.to(*anchor, {"", live.types, live.movable})) {
      std::vector<std::string> others = *names;
      for (std::string& text : health_sentences(slurm->cluster, others)) list.push_back(std::move(text));
      for (std::string& text : kept_by_rules(*anchor, closed.shares(), others)) list.push_back(std::move(text));
      if (!others.empty()) list.push_back(closed_sentence(others, closed.kept_for_qos()));
    }
    if (const auto lent = AccountLimits(*slurm, jobs, settings.rules.share, settings.partition).of(*anchor);
        lent && lent->left() == 0)
      list.push_back("the jobs of account " + lent->account + " have been lent " + std::to_string(lent->lent) +
                     " GPUs; [share] of espalier.toml allows " + std::to_string(lent->gpus));
  }
  std::set<std::string> unfit;
  for (const GpuId& gpu : job.unfit)
    if (slurm->cluster.find(gpu.node) != nullptr) unfit.insert(gpu.node);
  if (!unfit.empty())
    list.push_back(
        fold_hosts({unfit.begin(), unfit.end()}) +
        ": its workers died there again and again, or GPUs there have errors; it gets no GPUs there for up to "
        "an hour");
  int idle = 0;
  for (const NodeView& node : slurm->cluster.nodes) idle += node.idle_gpus();
  if (idle == 0) list.push_back("no GPU is idle");
  long tasks = 0;
  for (const WaitingJob& one : slurm->cluster.waiting) tasks += one.tasks;
  if (tasks > 0) list.push_back(std::to_string(tasks) + " waiting job(s) come first for GPUs they can use");
  if (!slurm->cluster.waiting_for_cpus.empty())
    list.push_back(
        "jobs without GPUs wait, for which Slurm preempts nothing: where they lack CPUs or memory no extension "
        "begins that would end after their expected start");
  return list;
}

}  // namespace espalier
