// How many GPUs the jobs of an account may hold in extensions, by [share].
#pragma once

#include <map>
#include <optional>
#include <string>

#include "planner/core/decision.hpp"
#include "planner/core/share_rules.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

struct AccountLimit {
  std::string account;
  int gpus = 0;  // the limit
  int lent = 0;  // what its jobs hold, and what they were promised
  int left() const { return gpus > lent ? gpus - lent : 0; }
};

// For one snapshot, which must outlive it. One thread at a time.
class AccountLimits {
 public:
  // `partition`: where extensions run.
  AccountLimits(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs, const ShareRules& rules,
                const std::string& partition);

  // The limit that leaves the least to extensions of `anchor`; nullopt: none applies to it.
  std::optional<AccountLimit> of(const SlurmJob& anchor) const;
  // Counts what the decision adds to what `anchor` was lent. False, and nothing is counted: a limit would be exceeded.
  bool take(const SlurmJob& anchor, const Decision& decision);

 private:
  const SlurmSnapshot& slurm_;
  const ShareRules& rules_;
  std::map<std::string, int> lent_;  // by the anchors' accounts
};

}  // namespace espalier
