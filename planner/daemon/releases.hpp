// GPUs that an epilog reported free and Slurm does not show as free yet. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/daemon/slurm.hpp"

namespace espalier {

class Releases {
 public:
  // An epilog on `node` reported the end of `job` at time `at`.
  void reported(JobId job, const std::string& node, double at);

  // Drops a report when `slurm` shows the GPUs as free. While the job still lives, the report waits
  // up to 0.5 s for the job's other nodes. A report is dropped unconfirmed 3 s after it came: slurmd reports before it
  // runs the site's own Epilog, during which Slurm shows the GPUs as held.
  void look(const SlurmSnapshot& slurm);
  bool waiting() const { return !pending_.empty(); }
  // Whether a decision had better wait for more reports to be confirmed: it would see only some of the GPUs that come
  // free. No decision waits for longer than 3 s, however many jobs end meanwhile.
  bool hold_decision(double now);
  // A decision is made now.
  void decided() { held_since_.reset(); }
  // Seconds until Slurm is worth another look: 20 ms at first, half a second where it has been looked at for long.
  double next_look(double now) const;
  // The time of the earliest report that was confirmed since the last call. Clears it.
  std::optional<double> take_first();

 private:
  struct Release {
    JobId job = 0;
    std::string node;
    double at = 0;
  };
  std::vector<Release> pending_;
  std::optional<double> first_;
  std::optional<double> held_since_;
};

}  // namespace espalier
