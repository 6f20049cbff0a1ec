// Jobs that wait for a limit of the site which extensions use up, such as GrpTRES of their account. Slurm preempts no
// job for a limit, so the planner takes the extensions back.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/waited_limits.hpp"

namespace espalier {

// The kinds of limits of several jobs that each QOS has: qos, user_in_qos, account_in_qos.
using QosLimits = std::map<std::string, std::set<LimitOf>>;

// The QOS that the limit is in which a job with a LimitOf of a QOS waits for: its own or that of its partition
// (`of_partition`; empty: none). Slurm does not say which one it is. Empty: both have such limits.
std::string qos_of_limit(const SlurmJob& waiting, const std::string& of_partition, const QosLimits& limits);

// "a limit of QOS normal": what a job with a LimitOf waits for.
std::string describe_limit(const SlurmJob& waiting);

// Keeps in mind what was given back, since Slurm looks at a job again only some time later.
class LimitWaits {
 public:
  struct Wait {
    WaitingJob job;              // `gpus` is what is still to be given back
    std::vector<JobId> counted;  // the extensions that count against the limit, sorted
  };
  // The jobs that extensions in `partition` keep waiting so. An extension counts for the first of them whose limit it
  // counts against: Slurm starts one job at a time there.
  std::vector<Wait> look(const SlurmSnapshot& slurm, const std::string& partition);

 private:
  struct Seen {
    int held = 0;      // GPUs of the extensions that counted, when it was first seen or last served
    double since = 0;  // seconds since the epoch
  };
  std::map<JobId, Seen> seen_;
};

}  // namespace espalier
