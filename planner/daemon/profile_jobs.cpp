#include "planner/daemon/profile_jobs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/core/error.hpp"
#include "planner/wire/grant.h"
#include "planner/wire/stage_queries.hpp"

namespace espalier {
namespace {

constexpr double kSlurmTells = 5;  // seconds after which a job that was submitted is in the snapshot

bool is_closed(const NodeNames& closed, const std::string& node) {
  return closed && std::binary_search(closed->begin(), closed->end(), node);
}

// Whether `job` itself may run there.
bool may_start_on(const NodeView& node, const WaitingJob* job) {
  return job == nullptr || job->only_nodes.empty() ||
         std::binary_search(job->only_nodes.begin(), job->only_nodes.end(), node.name);
}

// The share of one GPU, as an extension's. Where the job waits for a GPU: of all that the node has, as CPUs and memory
// come free with the GPU.
ExtensionRequest request_on(const NodeView& node, int minutes) {
  const int idle = node.idle_gpus();
  if (idle == 0) {
    const int gpus = std::max(1, static_cast<int>(node.gpu_owner.size()));
    return {node.name, 1, std::max(1, node.cpus / gpus), node.memory_mb / gpus, minutes};
  }
  return {node.name, 1, std::max(1, node.free_cpus / (idle + 1)), std::max(1L, node.free_memory_mb / (idle + 1)),
          minutes};
}

// The fewest idle GPUs, but one at least: what is left of a node serves whole jobs least.
bool better(const NodeView& a, const NodeView& b) {
  const int idle_a = a.idle_gpus(), idle_b = b.idle_gpus();
  if ((idle_a > 0) != (idle_b > 0)) return idle_a > 0;
  return idle_a < idle_b;
}

}  // namespace

bool is_profile_job(const SlurmJob& job) { return !wire::profiled_type(job.comment).empty(); }

ProfileJobs profile_jobs(const SlurmSnapshot& slurm, const std::string& partition, const SlurmJob& waiting,
                         JobId without) {
  ProfileJobs found;
  for (const auto& [id, job] : slurm.jobs) {
    if (id == without || job.partition != partition) continue;
    if (job.state == SlurmJobState::completing || job.state == SlurmJobState::ended) continue;
    const JobId anchor = anchor_of_comment(job.comment);
    const SlurmJob* const owner = anchor == 0 ? nullptr : slurm.alive(anchor);
    if (!is_profile_job(job) && (owner == nullptr || owner->state != SlurmJobState::pending)) continue;
    ++found.all;
    if (job.uid != waiting.uid) continue;
    ++found.of_user;
    if (anchor == waiting.id && is_profile_job(job)) found.types.insert(wire::profiled_type(job.comment));
  }
  return found;
}

void RecentGrants::add(uid_t user, double now, const std::string& grant) {
  const auto colon = grant.find(':');
  grants_.push_back({now, user, colon == std::string::npos ? "" : grant.substr(colon + 1, ESPALIER_GRANT_ID)});
}

ProfileJobs RecentGrants::with_grants(ProfileJobs jobs, const SlurmSnapshot& slurm, uid_t user, double now,
                                      bool replaces) {
  // A grant from before the clock was set back is forgotten as well.
  while (!grants_.empty() && !(std::abs(now - grants_.front().time) < kSlurmTells)) grants_.pop_front();
  std::set<std::string> told;  // by the comments of jobs, whatever became of them
  for (const auto& [id, job] : slurm.jobs) {
    const auto words = job.comment.substr(0, job.comment.find(' '));
    if (anchor_of_comment(job.comment) != 0) told.insert(words.substr(words.rfind(':') + 1));
  }
  int untold = 0, untold_of_user = 0, without_id = 0, without_id_of_user = 0;
  for (const Grant& one : grants_) {
    const int own = one.user == user ? 1 : 0;
    if (one.id.empty()) ++without_id, without_id_of_user += own;
    else if (!told.contains(one.id)) ++untold, untold_of_user += own;
  }
  // Without grants nothing tells which of them have become jobs: there are as many as the larger number says at least.
  const int itself = replaces ? 1 : 0;
  jobs.all = std::max(jobs.all, without_id - itself) + untold;
  jobs.of_user = std::max(jobs.of_user, without_id_of_user - itself) + untold_of_user;
  return jobs;
}

std::vector<ProfilePlace> profile_places(const SlurmSnapshot& slurm, const SlurmJob& waiting,
                                         const ProfilingRules& rules, const ProfileJobs& there, const NodeNames& closed,
                                         const std::string& only) {
  if (rules.gpus < 1 || rules.per_user < 1)
    throw Error("this site has no profile jobs: profiling.gpus or profiling.per_user is 0 in espalier.toml");
  int all = there.all, of_user = there.of_user;
  const auto entry = std::find_if(slurm.cluster.waiting.begin(), slurm.cluster.waiting.end(),
                                  [&](const WaitingJob& job) { return job.id == waiting.id; });
  const WaitingJob* const request = entry == slurm.cluster.waiting.end() ? nullptr : &*entry;
  struct Choice {
    const NodeView* node = nullptr;
    bool may_start = false;
  };
  std::map<std::string, Choice> best;
  for (const NodeView& node : slurm.cluster.nodes) {
    if (!node.usable || !node.unhealthy.empty() || node.gpu_owner.empty() || node.gpu_type.empty()) continue;
    if (!only.empty() && node.gpu_type != only) continue;
    if (there.types.contains(node.gpu_type) || is_closed(closed, node.name)) continue;
    Choice& one = best[node.gpu_type];
    one.may_start = one.may_start || may_start_on(node, request);
    if (one.node == nullptr || better(node, *one.node)) one.node = &node;
  }
  std::vector<std::pair<std::string, Choice>> order(best.begin(), best.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.may_start > b.second.may_start; });
  std::vector<ProfilePlace> places;
  for (const auto& [type, choice] : order) {
    if (all >= rules.gpus || of_user >= rules.per_user) {
      if (!places.empty()) break;
      if (of_user >= rules.per_user)
        throw Error("your profile jobs have " + std::to_string(of_user) +
                    " GPUs, as many as profiling.per_user allows; wait until one of them has ended");
      throw Error("profile jobs have " + std::to_string(all) +
                  " GPUs, as many as profiling.gpus allows; try again later");
    }
    places.push_back({type, request_on(*choice.node, rules.minutes), choice.node->idle_gpus() > 0});
    ++all, ++of_user;
  }
  return places;
}

}  // namespace espalier
