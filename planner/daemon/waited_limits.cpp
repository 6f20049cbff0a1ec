#include "planner/daemon/waited_limits.hpp"

#include "planner/daemon/extension_rules.hpp"

namespace espalier {
namespace {

constexpr int kMostLevels = 64;  // of accounts, which may be in a circle while they are changed

}  // namespace

// The limited ones of the account and those above it.
std::vector<std::string> WaitedLimits::limited_above(const std::string& account) const {
  std::vector<std::string> names;
  const std::string* at = &account;
  for (int level = 0; level < kMostLevels && !at->empty(); ++level) {
    const auto found = slurm_.accounts.find(*at);
    if (found == slurm_.accounts.end()) break;
    if (found->second.limited) names.push_back(*at);
    at = &found->second.parent;
  }
  return names;
}

void WaitedLimits::add(const Key& key, const Waiting& waiting) {
  std::vector<Waiting>& those = waiting_[key];
  if (those.size() < 2) those.push_back(waiting);
}

WaitedLimits::WaitedLimits(const SlurmSnapshot& slurm) : slurm_(slurm) {
  for (std::size_t place = 0; place < slurm.limited.size(); ++place) {
    const auto found = slurm.jobs.find(slurm.limited[place]);
    if (found == slurm.jobs.end()) continue;
    const SlurmJob& job = found->second;
    const Waiting waiting{place, &job};
    switch (job.limit) {
      case LimitOf::none:
        break;
      case LimitOf::qos:
        add({job.limit, 0, "", job.limit_qos}, waiting);
        break;
      case LimitOf::user_in_qos:
        add({job.limit, job.uid, "", job.limit_qos}, waiting);
        break;
      case LimitOf::account_in_qos:
        add({job.limit, 0, job.account, job.limit_qos}, waiting);
        break;
      case LimitOf::user_in_account:
        add({job.limit, job.uid, job.account, ""}, waiting);
        break;
      case LimitOf::account:
        if (slurm.accounts.empty()) {  // its own account is taken for limited
          add({job.limit, 0, job.account, ""}, waiting);
          break;
        }
        const auto limited = limited_above(job.account);
        for (const std::string& account : limited) add({job.limit, 0, account, ""}, waiting);
        // No account is limited: the limit is that of the user in the account.
        if (limited.empty()) add({LimitOf::user_in_account, job.uid, job.account, ""}, waiting);
        break;
    }
  }
}

const SlurmJob* WaitedLimits::first(uid_t uid, const std::string& account, const std::string& qos, JobId but) const {
  if (waiting_.empty()) return nullptr;
  Waiting best;
  const auto look = [&](const Key& key) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    for (const Waiting& one : found->second)
      if (one.job->id != but && (best.job == nullptr || one.place < best.place)) best = one;
  };
  for (const std::string* in : {&qos, &slurm_.extensions_qos}) {
    if (in == &slurm_.extensions_qos && in->empty()) continue;
    look({LimitOf::qos, 0, "", *in});
    look({LimitOf::user_in_qos, uid, "", *in});
    look({LimitOf::account_in_qos, 0, account, *in});
  }
  look({LimitOf::user_in_account, uid, account, ""});
  if (slurm_.accounts.empty()) look({LimitOf::account, 0, account, ""});
  else
    for (const std::string& limited : limited_above(account)) look({LimitOf::account, 0, limited, ""});
  return best.job;
}

const SlurmJob* WaitedLimits::against(const SlurmJob& anchor, const ExtensionRules& rules) const {
  return first(anchor.uid, rules.account.empty() ? anchor.account : rules.account,
               rules.qos.empty() ? anchor.qos : rules.qos, anchor.id);
}

}  // namespace espalier
