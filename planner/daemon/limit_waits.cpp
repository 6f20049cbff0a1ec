#include "planner/daemon/limit_waits.hpp"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

// After this time Slurm has looked at a job that waits. Backfill looks every bf_interval, 30 s unless the site says
// otherwise.
constexpr double kLooked = 75;

}  // namespace

std::string qos_of_limit(const SlurmJob& waiting, const std::string& of_partition, const QosLimits& limits) {
  if (of_partition.empty() || of_partition == waiting.qos) return waiting.qos;
  const auto has = [&](const std::string& qos) {
    const auto found = limits.find(qos);
    return found != limits.end() && found->second.contains(waiting.limit);
  };
  if (has(of_partition) == has(waiting.qos)) return {};
  return has(of_partition) ? of_partition : waiting.qos;
}

std::string describe_limit(const SlurmJob& waiting) {
  const std::string in_qos = " in QOS " + waiting.limit_qos;
  switch (waiting.limit) {
    case LimitOf::qos:
      return "a limit of QOS " + waiting.limit_qos;
    case LimitOf::user_in_qos:
      return "a limit of each user" + in_qos;
    case LimitOf::account_in_qos:
      return "a limit of each account" + in_qos;
    case LimitOf::account:
      return "a limit of account " + waiting.account + ", or of one above it";
    case LimitOf::user_in_account:
      return "a limit of its user in account " + waiting.account;
    case LimitOf::none:
      break;
  }
  return "no limit";
}

std::vector<LimitWaits::Wait> LimitWaits::look(const SlurmSnapshot& slurm, const std::string& partition) {
  std::vector<Wait> result;
  std::map<JobId, Seen> still;
  if (!slurm.limited.empty()) {
    const WaitedLimits limits(slurm);
    struct Counted {
      std::vector<JobId> extensions;
      int gpus = 0;
    };
    std::map<JobId, Counted> counted;  // by the job that waits
    for (const auto& [id, job] : slurm.jobs) {
      if (job.state != SlurmJobState::running || job.partition != partition || anchor_of_comment(job.comment) == 0)
        continue;
      const SlurmJob* const waiting = limits.first(job.uid, job.account, job.qos);
      if (waiting == nullptr) continue;
      counted[waiting->id].extensions.push_back(id);
      counted[waiting->id].gpus += gpus_of(job);
    }
    for (const JobId id : slurm.limited) {
      const auto those = counted.find(id);
      if (those == counted.end()) continue;
      const SlurmJob& job = slurm.jobs.at(id);
      const int held = those->second.gpus;
      Wait wait;
      wait.counted = std::move(those->second.extensions);
      const auto before = seen_.find(id);
      Seen& seen = still[id] = before == seen_.end() ? Seen{held, slurm.time} : before->second;
      seen.since = std::min(seen.since, slurm.time);  // the clock may have been set back
      if (slurm.time - seen.since > kLooked) seen = {held, slurm.time};
      wait.job.id = id;
      // For a job without GPUs, which waits for CPUs or a number of jobs, one extension is enough to begin with.
      wait.job.gpus = std::max(job.wanted_gpus, 1) - std::max(0, seen.held - held);
      wait.job.priority = job.priority;
      if (wait.job.gpus <= 0) continue;
      result.push_back(std::move(wait));
    }
  }
  // A job whose extensions have all gone is remembered for as long as it waits.
  for (const JobId id : slurm.limited)
    if (const auto before = seen_.find(id); before != seen_.end()) still.try_emplace(id, before->second);
  seen_ = std::move(still);
  return result;
}

}  // namespace espalier
