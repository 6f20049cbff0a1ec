// Which of many jobs Slurm is asked about next, when it is asked about some at a time: a job with hundreds of
// extensions must not send slurmctld hundreds of requests at once. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

class AskingOrder {
 public:
  // Every job is asked about at least once in `turns` turns. Up to `most` jobs are asked about in every turn.
  AskingOrder(std::size_t most, std::size_t turns) : most_(most), turns_(turns) {}

  // Of `jobs` those that are asked about now: first those that never were, then those for whom that is longest ago.
  // `under_way`: jobs whose answers have not come; they keep their turn. Jobs that are missing from `jobs` are
  // forgotten.
  std::vector<JobId> next(const std::set<JobId>& jobs, const std::set<JobId>& under_way);

 private:
  const std::size_t most_, turns_;
  std::uint64_t turn_ = 0;
  std::map<JobId, std::uint64_t> asked_;  // in which turn
};

}  // namespace espalier::launcher
