// Nodes that compute more slowly than their like, as profiles of jobs show it (model/compared_nodes.hpp). What one
// user's jobs find does not decide where another user's jobs go. Findings outlive the job that made them. One thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier {

// A node that computes at less than this share of its like is slow.
inline constexpr double kSlowNode = 0.8;

class SlowNodes {
 public:
  // `shares`: compute_shares() of a calm profile of a user's job. Of these nodes the job's earlier findings are
  // replaced; those of other nodes stay, each for an hour (seconds since the epoch) after it was made.
  void note(uid_t user, JobId job, const std::map<std::string, double>& shares, double now);
  // By node: the least share that a job of the user has found; all below kSlowNode.
  std::map<std::string, double> of(uid_t user, double now) const;

  struct Slow {
    double share = 1;
    int jobs = 0;  // that have found it slow
  };
  std::map<std::string, Slow> all(double now) const;

 private:
  struct Finding {
    double share = 1, until = 0;
  };
  std::map<uid_t, std::map<std::string, std::map<JobId, Finding>>> found_;
};

}  // namespace espalier
