// Which of many jobs Slurm is asked about next, when it is asked about some at a time: a job with hundreds of
// extensions must not send slurmctld hundreds of requests every few seconds. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

class AskingOrder {
 public:
  explicit AskingOrder(std::size_t most) : most_(most) {}

  // At most so many of `jobs`: first those that were never asked about, then those for whom that is longest ago. Each
  // is taken as asked about now. Jobs that are missing from `jobs` are forgotten.
  std::vector<JobId> next(const std::vector<JobId>& jobs);

 private:
  const std::size_t most_;
  std::uint64_t turn_ = 0;
  std::map<JobId, std::uint64_t> asked_;  // in which turn
};

}  // namespace espalier::launcher
