// What Slurm's accounting says: QOS, accounts, limits, and users' fair shares (planner/slurm/accounting.h). A large
// site has much of it, so that it is asked seldom.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/preemption.hpp"
#include "planner/daemon/limit_waits.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/slurm_answers.hpp"

namespace espalier {

// These add what slurmctld tells; without accounting that is nothing. False, with errno: it did not answer. They may
// block as slurmctld's answers do. Any thread.
bool add_every_qos(std::vector<Qos>& all);
bool add_qos_names(std::set<std::string>& names);
bool add_account_names(std::set<std::string>& names);

// What was read last, and when. Where it cannot be read again the last answer counts, and the log says so: nothing
// throws. One thread at a time; what reads may block.
class SlurmAccounting {
 public:
  // Reads the fair shares where it is time to. `now`: seconds since the epoch; `type`: AccountingStorageType.
  void look_at_shares(double now, const std::string& type);
  const std::shared_ptr<const FairShares>& shares() const { return shares_; }  // null: the site has no accounting
  std::optional<double> fair_share(const SlurmJob& job);                       // SlurmJob::fair_share

  // Reads them where they are old.
  const Accounts& accounts(double now);
  // Sets the QOS that the job's limit is in. Where that is not known, extensions are not blamed: its limit is none.
  // `partition_qos`: by partition, the QOS that its limits are in; empty: none.
  void name_limit_qos(SlurmJob& job, const std::map<std::string, std::string>& partition_qos, double now);

 private:
  const std::string& user_name(uid_t uid);
  const QosLimits& qos_limits(double now);  // as accounts()

  std::shared_ptr<const FairShares> shares_;
  AskingTimes shares_times_;
  std::map<uid_t, std::string> user_names_;
  Accounts accounts_;
  QosLimits qos_limits_;
  double accounts_time_ = 0, qos_limits_time_ = 0;
};

}  // namespace espalier
