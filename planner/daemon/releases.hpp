// GPUs that an epilog said are free, until Slurm says so too. Pure.
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

  // Forgets what `slurm` shows as free, and what it has not shown within 3 s of the report.
  void look(const SlurmSnapshot& slurm);
  bool waiting() const { return !pending_.empty(); }
  // When the first of the releases was reported that have come true since the last take; empties it.
  std::optional<double> take_first();

 private:
  struct Release {
    JobId job = 0;
    std::string node;
    double at = 0;
  };
  std::vector<Release> pending_;
  std::optional<double> first_;
};

}  // namespace espalier
