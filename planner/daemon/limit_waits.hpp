// Jobs that wait for a limit of the site which extensions use up, such as GrpTRES of their account. Slurm preempts no
// job for a limit, so the planner takes the extensions back.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/daemon/extension_rules.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// Whether a job of this user, account and QOS counts against the limit that `waiting` waits for.
// `accounts` tells which accounts above that of `waiting` are limited; empty: its own account is taken for limited.
bool counts_against(const SlurmJob& waiting, uid_t uid, const std::string& account, const std::string& qos,
                    const Accounts& accounts);

// The kinds of limits of several jobs that each QOS has: qos, user_in_qos, account_in_qos.
using QosLimits = std::map<std::string, std::set<LimitOf>>;

// The QOS that the limit is in which a job with a LimitOf of a QOS waits for: its own or that of its partition
// (`of_partition`; empty: none). Slurm does not say which one it is. Empty: both have such limits.
std::string qos_of_limit(const SlurmJob& waiting, const std::string& of_partition, const QosLimits& limits);

// "a limit of QOS normal": what a job with a LimitOf waits for.
std::string describe_limit(const SlurmJob& waiting);

// A job that waits for a limit which extensions of `anchor` would count against; null: there is none.
const SlurmJob* waits_for_limit_of(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ExtensionRules& rules);

// Keeps in mind what was given back, since Slurm looks at a job again only some time later.
class LimitWaits {
 public:
  struct Wait {
    WaitingJob job;              // `gpus` is what is still to be given back
    std::vector<JobId> counted;  // the extensions that count against the limit, sorted
  };
  // The jobs that extensions keep waiting so.
  std::vector<Wait> look(const SlurmSnapshot& slurm, const std::string& partition);

 private:
  struct Seen {
    int held = 0;      // GPUs of the extensions that counted, when it was first seen or last served
    double since = 0;  // seconds since the epoch
  };
  std::map<JobId, Seen> seen_;
};

}  // namespace espalier
