// Time limits of extensions. An extension starts with a limit of at most extensions.max_lease_minutes, so that whatever
// happens to espalierd it comes back by itself. While nobody waits for its node the limit is prolonged: without that
// each long training would shrink and grow again once an hour for nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

struct Lease {
  JobId extension = 0, job = 0;
  std::string node;
  double started = 0, ends = 0;  // seconds since the epoch
  bool operator==(const Lease&) const = default;
};

struct Renewal {
  JobId extension = 0, job = 0;
  std::string node;
  int minutes = 0;  // the new time limit, from its start
  bool operator==(const Renewal&) const = default;
};

class Leases {
 public:
  // Running extensions whose time limit ends within a quarter of max_lease_minutes, or a minute if that is more. Their
  // launchers are connected, name them and carry out no decision. Each is named at most every 20 s.
  std::vector<Lease> due(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs, int max_lease_minutes);

 private:
  std::map<JobId, double> named_;  // when
};

// Of `due` those that stay, and for how long: a lease that would be given now, and that ends later than the present
// one. None is prolonged that a waiting job gets, beyond the expected start of one, or on a node where its job gets no
// new extension any more. Pure; cost as that of serve_waiting().
std::vector<Renewal> renewed(const std::vector<Lease>& due, const PlanningInput& input,
                             const SchedulerOptions& options);

}  // namespace espalier
