#include "planner/daemon/slurm_accounting.hpp"

#include <pwd.h>
#include <slurm/slurm_errno.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <sstream>
#include <utility>

#include "planner/daemon/clock.hpp"
#include "planner/daemon/slurm_age.hpp"
#include "planner/daemon/slurm_jobs.hpp"
#include "planner/slurm/accounting.h"

namespace espalier {
namespace {

void add_qos(void* list, const espalier_qos* qos) {
  Qos one{qos->name,
          {},
          qos->preempt_mode == 0 ? "" : preempt_mode_text(qos->preempt_mode),
          qos->grace_seconds,
          qos->usage_factor,
          qos->exempt_seconds};
  const std::string names = qos->preempts;
  for (std::size_t begin = 0, comma; (comma = names.find(',', begin)) != std::string::npos; begin = comma + 1)
    one.preempts.insert(names.substr(begin, comma - begin));
  static_cast<std::vector<Qos>*>(list)->push_back(std::move(one));
}

void add_account(void* all, const espalier_account* account) {
  if (account->user != nullptr && *account->user != '\0') return;
  static_cast<Accounts*>(all)->insert_or_assign(
      account->name, Account{account->parent == nullptr ? "" : account->parent, account->limited != 0});
}

void add_qos_limits(void* all, const espalier_qos* qos) {
  std::set<LimitOf>& has = (*static_cast<QosLimits*>(all))[qos->name];
  if (qos->group_limits != 0) has.insert(LimitOf::qos);
  if (qos->user_limits != 0) has.insert(LimitOf::user_in_qos);
  if (qos->account_limits != 0) has.insert(LimitOf::account_in_qos);
}

// Of a QOS or of an account.
template <class Named>
void add_name(void* names, const Named* one) {
  static_cast<std::set<std::string>*>(names)->insert(one->name);
}

}  // namespace

bool add_every_qos(std::vector<Qos>& all) { return espalier_slurm_each_qos(&add_qos, &all) == SLURM_SUCCESS; }

bool add_qos_names(std::set<std::string>& names) {
  return espalier_slurm_each_qos(&add_name<espalier_qos>, &names) == SLURM_SUCCESS;
}

bool add_account_names(std::set<std::string>& names) {
  return espalier_slurm_each_account(&add_name<espalier_account>, &names) == SLURM_SUCCESS;
}

void SlurmAccounting::look_at_shares(double now, const std::string& type) {
  if (!shares_times_.due(now)) return;
  std::erase_if(user_names_, [](const auto& one) { return one.second.empty(); });
  const std::unique_ptr<char, decltype(&std::free)> text(espalier_slurm_shares(), std::free);
  shares_times_.asked(clock_seconds());
  auto told = told_shares(text.get(), type);
  if (told) {
    shares_ = std::move(*told);
    shares_times_.answered();
  } else if (shares_times_.failed()) {
    spdlog::warn(
        "fair shares cannot be read, and the last ones count: sshare cannot be run, or slurmctld does not answer it; "
        "is slurm-client installed? Without priority/multifactor there are none");
  }
}

// Slurm's records of accounts have names. A lookup may ask a directory service, so that each is made once, and one
// that failed once for each time that shares are read.
const std::string& SlurmAccounting::user_name(uid_t uid) {
  const auto [at, fresh] = user_names_.try_emplace(uid);
  if (!fresh) return at->second;
  std::vector<char> space(16384);
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, space.data(), space.size(), &found) == 0 && found != nullptr)
    at->second = found->pw_name;
  return at->second;
}

std::optional<double> SlurmAccounting::fair_share(const SlurmJob& job) {
  if (!shares_ || shares_->factors.empty()) return std::nullopt;
  const auto found = shares_->factors.find({job.account, user_name(job.uid)});
  return found == shares_->factors.end() ? std::nullopt : std::optional(found->second);
}

const Accounts& SlurmAccounting::accounts(double now) {
  if (!is_old(accounts_time_, now)) return accounts_;
  accounts_time_ = now;
  Accounts fresh;
  if (espalier_slurm_each_account(&add_account, &fresh) == SLURM_SUCCESS) accounts_ = std::move(fresh);
  else spdlog::warn("slurmctld: accounts cannot be read ({}); the last ones count", slurm_strerror(errno));
  return accounts_;
}

void SlurmAccounting::name_limit_qos(SlurmJob& job, const std::map<std::string, std::string>& partition_qos,
                                     double now) {
  if (job.limit != LimitOf::qos && job.limit != LimitOf::user_in_qos && job.limit != LimitOf::account_in_qos) return;
  // Which of several partitions it waits in is not told.
  std::string of_partition;
  std::istringstream partitions(job.partition);
  for (std::string one; std::getline(partitions, one, ',');) {
    const auto found = partition_qos.find(one);
    const std::string qos = found == partition_qos.end() ? "" : found->second;
    if (one != job.partition && !qos.empty() && qos != job.qos) return void(job.limit = LimitOf::none);
    of_partition = qos;
  }
  const bool two = !of_partition.empty() && of_partition != job.qos;
  job.limit_qos = qos_of_limit(job, of_partition, two ? qos_limits(now) : qos_limits_);
  if (job.limit_qos.empty() && two) job.limit = LimitOf::none;
}

const QosLimits& SlurmAccounting::qos_limits(double now) {
  if (!is_old(qos_limits_time_, now)) return qos_limits_;
  qos_limits_time_ = now;
  QosLimits fresh;
  if (espalier_slurm_each_qos(&add_qos_limits, &fresh) == SLURM_SUCCESS) qos_limits_ = std::move(fresh);
  else spdlog::warn("slurmctld: limits of QOS cannot be read ({}); the last ones count", slurm_strerror(errno));
  return qos_limits_;
}

}  // namespace espalier
