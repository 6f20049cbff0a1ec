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
  // A user's job reports these GPUs. The caller must pass only GPUs of nodes that Slurm knows, because names are kept.
  // Each finding holds for an hour (seconds since the epoch) after the last report of it. Returns the nodes that are
  // new for this job. What exceeds the two limits below is not kept, until earlier findings have run out.
  std::vector<std::string> note(uid_t user, JobId job, const std::vector<GpuId>& unfit, double now);
  // What at least two other jobs of the user than `job` have found.
  std::set<std::string> of(uid_t user, JobId job, double now) const;
  // By node: how many jobs have found it unfit.
  std::map<std::string, int> all(double now) const;

  // Findings of one job, and of all jobs of one user. A user may start job after job, and findings outlive jobs.
  static constexpr std::size_t kMostNodes = 256, kMostOfUser = 1024;

 private:
  struct Findings {
    std::map<JobId, std::map<std::string, double>> until;
    std::size_t count = 0;  // in `until`
    double swept = 0;       // when those that had run out were last removed
    void sweep(double now);
  };
  std::map<uid_t, Findings> users_;
};

}  // namespace espalier
