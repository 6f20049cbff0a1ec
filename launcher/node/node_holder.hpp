// What keeps a node for a movable job: for its launcher, and after the loss of that one for the launcher that Slurm
// starts when it has requeued the job. Both the keepers of a base and those of extensions do so.
#pragma once

#include <optional>
#include <string>

#include "launcher/node/base_tenure.hpp"
#include "launcher/node/keeper_parts.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/wire/keeper_messages.hpp"

namespace espalier::launcher {

class NodeHolder {
 public:
  // `submitted`: the movable job. `vaults`: the prefix of the names of its vaults. `vault` may be null.
  NodeHolder(Watcher& watcher, JobId submitted, std::string vaults, BaseTenure& tenure, Vault* vault, bool extension);

  // Returns once the node is to be given back. True: the launcher said so.
  bool hold();

 private:
  enum class Attended { told, refused, superseded };  // told: by the launcher, to give the node back

  std::vector<LauncherPlace> launchers(const LauncherPlace& last) const;
  Attended attend(wire::Client& client, const LauncherPlace& place);
  bool leaves() const { return extension_ && watcher_.noticed; }

  Watcher& watcher_;
  const JobId submitted_;
  const std::string vaults_;
  BaseTenure& tenure_;
  Vault* const vault_;
  const bool extension_;
  std::optional<wire::Continuation> continuation_;  // that the last launcher has sent
  int newest_ = 0;                                  // restarts of the newest launcher that has accepted this keeper
};

// What a keeper's tenure hears of the submitted job. A suspended one waits: its launcher is stopped, and accepts the
// keeper once the job is resumed. nullopt: Slurm does not know it any more.
BaseTenure::Submitted state_of(const std::optional<SlurmJob>& submitted);
// Whether Slurm says that the submitted job has ended, and will not run again. Throws Error when slurmctld is away.
bool has_ended(JobId submitted);

}  // namespace espalier::launcher
