#include "planner/daemon/limit_waits.hpp"

#include <algorithm>
#include <set>

namespace espalier {
namespace {

// After this time Slurm has looked at a job that waits. Backfill looks every bf_interval, 30 s unless the site says
// otherwise.
constexpr double kLooked = 75;
constexpr int kMostLevels = 64;  // of accounts

// The account and those above it.
std::vector<std::string> chain(const std::string& account, const Accounts& accounts) {
  std::vector<std::string> names;
  std::string at = account;
  for (int level = 0; level < kMostLevels && !at.empty(); ++level) {
    names.push_back(at);
    const auto found = accounts.find(at);
    if (found == accounts.end()) break;
    at = found->second.parent;
  }
  return names;
}

// Whether the two accounts are below a limited account that both have.
bool share_limit(const std::string& one, const std::string& other, const Accounts& accounts) {
  const auto above = chain(one, accounts);
  for (const std::string& name : chain(other, accounts)) {
    const auto found = accounts.find(name);
    if (found != accounts.end() && found->second.limited && std::find(above.begin(), above.end(), name) != above.end())
      return true;
  }
  return false;
}

bool limited_above(const std::string& account, const Accounts& accounts) {
  const auto above = chain(account, accounts);
  return std::any_of(above.begin(), above.end(), [&](const std::string& name) {
    const auto found = accounts.find(name);
    return found != accounts.end() && found->second.limited;
  });
}

// An extension counts in its own QOS and in that of its partition.
bool extension_counts(const SlurmJob& waiting, uid_t uid, const std::string& account, const std::string& qos,
                      const SlurmSnapshot& slurm) {
  return counts_against(waiting, uid, account, qos, slurm.accounts) ||
         (!slurm.extensions_qos.empty() && counts_against(waiting, uid, account, slurm.extensions_qos, slurm.accounts));
}

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

bool counts_against(const SlurmJob& waiting, uid_t uid, const std::string& account, const std::string& qos,
                    const Accounts& accounts) {
  switch (waiting.limit) {
    case LimitOf::none:
      return false;
    case LimitOf::qos:
      return qos == waiting.limit_qos;
    case LimitOf::user_in_qos:
      return qos == waiting.limit_qos && uid == waiting.uid;
    case LimitOf::account_in_qos:
      return qos == waiting.limit_qos && account == waiting.account;
    case LimitOf::user_in_account:
      return uid == waiting.uid && account == waiting.account;
    case LimitOf::account:
      if (accounts.empty()) return account == waiting.account;
      if (share_limit(account, waiting.account, accounts)) return true;
      // No account is limited: the limit is that of the user in the account.
      return !limited_above(waiting.account, accounts) && uid == waiting.uid && account == waiting.account;
  }
  return false;
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

const SlurmJob* waits_for_limit_of(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ExtensionRules& rules) {
  const std::string& account = rules.account.empty() ? anchor.account : rules.account;
  const std::string& qos = rules.qos.empty() ? anchor.qos : rules.qos;
  for (const JobId id : slurm.limited) {
    const auto waiting = slurm.jobs.find(id);
    if (waiting != slurm.jobs.end() && id != anchor.id &&
        extension_counts(waiting->second, anchor.uid, account, qos, slurm))
      return &waiting->second;
  }
  return nullptr;
}

std::vector<LimitWaits::Wait> LimitWaits::look(const SlurmSnapshot& slurm, const std::string& partition) {
  std::vector<Wait> result;
  std::map<JobId, Seen> still;
  if (!slurm.limited.empty()) {
    std::vector<const SlurmJob*> extensions;
    for (const auto& [id, job] : slurm.jobs)
      if (job.state == SlurmJobState::running && job.partition == partition && anchor_of_comment(job.comment) != 0)
        extensions.push_back(&job);
    std::set<JobId> taken;  // for a job before, of which Slurm starts one at a time
    for (const JobId id : slurm.limited) {
      const SlurmJob& job = slurm.jobs.at(id);
      Wait wait;
      int held = 0;
      for (const SlurmJob* one : extensions) {
        if (taken.contains(one->id) || !extension_counts(job, one->uid, one->account, one->qos, slurm)) continue;
        wait.counted.push_back(one->id);
        held += gpus_of(*one);
      }
      if (wait.counted.empty()) continue;
      const auto before = seen_.find(id);
      Seen& seen = still[id] = before == seen_.end() ? Seen{held, slurm.time} : before->second;
      if (slurm.time - seen.since > kLooked) seen = {held, slurm.time};
      wait.job.id = id;
      // For a job without GPUs, which waits for CPUs or a number of jobs, one extension is enough to begin with.
      wait.job.gpus = std::max(job.wanted_gpus, 1) - std::max(0, seen.held - held);
      wait.job.priority = job.priority;
      taken.insert(wait.counted.begin(), wait.counted.end());
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
