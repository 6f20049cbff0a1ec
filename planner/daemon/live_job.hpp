// One elastic job while its launcher is known to the planner.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "planner/core/job.hpp"
#include "planner/daemon/allowance.hpp"
#include "planner/daemon/profile_book.hpp"
#include "planner/daemon/store.hpp"
#include "planner/wire/server.hpp"

namespace espalier {

struct LiveJob {
  ElasticJob job;            // as the launcher reports it; uid and id are what Slurm and MUNGE say
  wire::ConnectionPtr link;  // null while the launcher is away
  std::string host;          // the launcher's
  int pid = 0;

  std::optional<double> last_change;  // for the cooldown
  int failures = 0;                   // aborted decisions in a row
  double not_before = 0;              // no proposal of any kind earlier, after a failure
  double saved = 0;                   // when the store last got it
  double tokens_per_second = 0;
  ProfileBook profiles;
  std::string unfit_profile;            // what was wrong with the last one that did not even get there
  std::optional<double> pause_seconds;  // of the last reconfigurations that were committed

  std::optional<DecisionRecord> open;      // proposed, no outcome yet
  int proposed_to = 0;                     // the generation that ran when `open` was proposed, or has recovered since
  bool back_since = false;                 // ... and whether the launcher has registered again since
  std::set<JobId> before;                  // extensions when `open` was proposed
  std::optional<DecisionRecord> measured;  // committed, its step time still being measured
  std::string shadowed;                    // what --shadow recorded last
  Allowance own_acts;                      // that its launcher reports
  bool own_acts_refused = false;           // ... and once said to be too many
};

}  // namespace espalier
