#include "planner/daemon/account_limits.hpp"

#include "planner/core/schedule/move.hpp"
#include "planner/daemon/planning_input.hpp"

namespace espalier {
AccountLimits::AccountLimits(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs, const ShareRules& rules,
                             const std::string& partition)
    : slurm_(slurm), rules_(rules) {
  if (rules.account_gpus == 0 && rules.accounts.empty()) return;
  for (const auto& [id, job] : slurm.jobs) {
    if (job.state != SlurmJobState::running || job.partition != partition) continue;
    const SlurmJob* anchor = slurm.alive(anchor_of_comment(job.comment));
    if (anchor != nullptr && anchor->uid == job.uid) lent_[anchor->account] += gpus_of(job);
  }
  const LentJobs running(slurm);
  for (const auto& [id, live] : jobs) {
    const SlurmJob* anchor = slurm.alive(id);
    if (!live.open || anchor == nullptr || moves_base(live.open->decision)) continue;
    auto granted = running.granted_since(live);
    for (const ExtensionRequest& request : live.open->decision.acquire)
      lent_[anchor->account] += std::max(0, request.gpus - granted[request.node]);
  }
}

std::optional<AccountLimit> AccountLimits::of(const SlurmJob& anchor) const {
  if (anchor.account.empty()) return std::nullopt;
  std::optional<AccountLimit> least;
  const auto consider = [&](AccountLimit limit) {
    if (!least || limit.gpus - limit.lent < least->gpus - least->lent) least = std::move(limit);
  };
  for (const auto& [account, gpus] : rules_.accounts) {
    if (!slurm_.is_within(anchor.account, account)) continue;
    AccountLimit limit{account, gpus, 0};
    for (const auto& [other, lent] : lent_)
      if (slurm_.is_within(other, account)) limit.lent += lent;
    consider(std::move(limit));
  }
  if (rules_.account_gpus > 0 && !rules_.accounts.contains(anchor.account)) {
    const auto lent = lent_.find(anchor.account);
    consider({anchor.account, rules_.account_gpus, lent == lent_.end() ? 0 : lent->second});
  }
  return least;
}

bool AccountLimits::take(const SlurmJob& anchor, const Decision& decision) {
  if (moves_base(decision)) return true;
  int added = 0;
  for (const ExtensionRequest& request : decision.acquire) added += request.gpus;
  for (const JobId id : decision.release)
    if (const SlurmJob* extension = slurm_.alive(id)) added -= gpus_of(*extension);
  const auto limit = of(anchor);
  if (added > 0 && limit && added > limit->left()) return false;
  if (added > 0) lent_[anchor.account] += added;
  return true;
}

}  // namespace espalier
