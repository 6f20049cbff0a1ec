// Extensions that nobody owns any more. Slurm ties an allocation to nothing: an extension whose anchor is gone would
// hold its GPUs until its time limit. Keepers end their own; this is the second line. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

class Strays {
 public:
  explicit Strays(std::string partition) : partition_(std::move(partition)) {}

  struct Stray {
    JobId extension = 0, anchor = 0;
    std::string why;
  };
  // Those that have been strays for longer than their grace: anchor gone for 10 s, or not claimed for 30 s by an anchor
  // whose launcher is connected and not reconfiguring. Each is named again 10 s later if it is still there.
  std::vector<Stray> look(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs);

 private:
  std::string partition_;
  std::map<JobId, double> since_;  // extension -> when it was first seen ownerless
};

}  // namespace espalier
