// The limits that jobs wait for, by what counts against them. A site may have thousands of elastic jobs, and a user may
// have a job wait for a limit in each account and QOS: each question costs a few look-ups, however many jobs wait.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "planner/daemon/slurm.hpp"

namespace espalier {

struct ExtensionRules;

// For one snapshot, which must outlive it.
//   WaitedLimits limits(slurm);
//   if (const SlurmJob* waiting = limits.against(anchor, rules)) ...
class WaitedLimits {
 public:
  explicit WaitedLimits(const SlurmSnapshot& slurm);

  // The first of SlurmSnapshot::limited that waits for a limit which an extension of this user, account and QOS counts
  // against; null: there is none. An extension counts in its own QOS and in that of its partition. `but` is left out.
  const SlurmJob* first(uid_t uid, const std::string& account, const std::string& qos, JobId but = 0) const;
  // The same for extensions of `anchor`. A job does not wait for itself.
  const SlurmJob* against(const SlurmJob& anchor, const ExtensionRules& rules) const;

 private:
  // What a job must be to count: its user, account and QOS, as far as the limit asks for them.
  using Key = std::tuple<LimitOf, uid_t, std::string, std::string>;
  struct Waiting {
    std::size_t place = 0;  // in SlurmSnapshot::limited
    const SlurmJob* job = nullptr;
  };
  void add(const Key& key, const Waiting& waiting);
  std::vector<std::string> limited_above(const std::string& account) const;

  const SlurmSnapshot& slurm_;
  std::map<Key, std::vector<Waiting>> waiting_;  // of each limit the first two, so that one can be left out
};

}  // namespace espalier
