// Nodes on which workers of jobs have died again and again (ElasticJob::unfit). Where two jobs of a user have found the
// same node unfit, the user's other jobs get no GPUs there for an hour: each would lose workers to learn the same. One
// job alone decides nothing: a fault of its program may strike wherever it runs. What one user's jobs report does not
// decide where another user's jobs go. Findings outlive the job that made them. One thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier {

class UnfitNodes {
 public:
  // A user's job reports these GPUs. Each of its findings holds for an hour (seconds since the epoch) after the last
  // report of it. Returns the nodes that are new for this job. Of a job at most kMostNodes are kept.
  std::vector<std::string> note(uid_t user, JobId job, const std::vector<GpuId>& unfit, double now);
  // What at least two other jobs of the user than `job` have found.
  std::set<std::string> of(uid_t user, JobId job, double now) const;
  // By node: how many jobs have found it unfit.
  std::map<std::string, int> all(double now) const;

  static constexpr std::size_t kMostNodes = 256;

 private:
  std::map<uid_t, std::map<JobId, std::map<std::string, double>>> until_;
};

}  // namespace espalier
