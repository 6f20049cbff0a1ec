// An earlier launcher of a movable job may have left bases. This object chooses the one on which training goes on, by
// what the keepers of these bases tell. Pure.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/wire/keeper_messages.hpp"

namespace espalier::launcher {

class Adoption {
 public:
  struct Choice {
    JobId base = 0;             // 0: none is of use
    std::vector<JobId> others;  // to be given back
    std::string why_none;
  };

  void await(JobId base) { awaited_.insert(base); }
  // A keeper tells what its launcher had told it. The newest such message counts.
  void heard(const wire::Continuation& left);
  // The keepers of the base have come, or the base has ended. False: it is none of those that were left.
  bool came(JobId base);
  bool ended(JobId base);
  bool complete() const { return awaited_.empty(); }  // each has come or ended
  // nullopt: no launcher had started ranks on any of them.
  const std::optional<wire::Continuation>& continuation() const { return continuation_; }

  // Whether a generation that an earlier launcher had has state on one of these GPUs.
  bool holds_state(const std::vector<Holding>& holdings) const;

  // Once complete. `suits`: whether the job's launcher can go on with what is left. `enough`: whether as many GPUs as
  // MIN are left of the base. On fewer no training starts; one that has begun goes on there, or ends with its reason.
  Choice choose(
      const std::function<bool(const wire::Continuation&)>& suits,
      const std::function<bool(JobId)>& enough = [](JobId) { return true; });

 private:
  std::set<JobId> awaited_, came_;
  std::optional<wire::Continuation> continuation_;
};

}  // namespace espalier::launcher
