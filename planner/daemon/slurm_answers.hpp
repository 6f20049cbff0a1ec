// What Slurm's own commands print, and when they are run again. A slurmctld that does not answer them must not look
// like a site without accounting or without switches. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "planner/core/topology/switch_paths.hpp"
#include "planner/daemon/fair_shares.hpp"

namespace espalier {

// The fair shares by what sshare printed. `text`: null where sshare failed. `accounting`: slurmctld's
// AccountingStorageType. A null pointer: the site has no accounting. nullopt: that was no answer, and the last one
// counts.
std::optional<std::shared_ptr<const FairShares>> told_shares(const char* text, const std::string& accounting);

// The switches by what `scontrol show topology` printed, which prints nothing and exits with 0 where slurmctld does not
// answer. `text`: null where it failed. `plugin`: slurmctld's TopologyPlugin. nullopt: that was no answer, and the last
// one counts. Throws Error as parse_topology() does.
std::optional<SwitchPaths> told_topology(const char* text, const std::string& plugin);

// The switches that Slurm has told of. TopologyPlugin alone does not say whether a site has some: from Slurm 25.05 on
// they may be in topology.yaml. So where some were told, one empty answer is no answer, and a second one some seconds
// later is.
class ToldSwitches {
 public:
  // Takes what told_topology() takes, and may throw as it does. `now`: seconds. False: that was no answer.
  bool take(const char* text, const std::string& plugin, double now);
  const SwitchPaths& switches() const { return switches_; }

 private:
  static constexpr double kApart = 5;  // seconds; within them one restart of slurmctld may be asked twice
  SwitchPaths switches_;
  std::optional<double> empty_at_;  // the first empty answer since switches were told
};

// When something is asked for that changes seldom: once a minute. After a failure it is asked for again after ten
// seconds, and twice as long after each further one, up to a minute: a command that does not answer holds up everything
// else that is asked of Slurm.
class AskingTimes {
 public:
  bool due(double now) const { return now < asked_ || now - asked_ > wait_; }  // the clock may have been set back
  void asked(double now) { asked_ = now; }  // when the command has ended, which may take as long as the pause
  void answered();
  bool failed();  // true: for the first time since an answer

 private:
  static constexpr double kUsual = 60, kSoon = 10;  // seconds
  double asked_ = 0, wait_ = kUsual;
  bool failing_ = false;
};

}  // namespace espalier
