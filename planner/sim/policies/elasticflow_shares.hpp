// The core of ElasticFlow (ASPLOS '23) for jobs without deadlines: minimum shares in the order of
// admission, then GPUs where they gain most.
#pragma once

#include <span>
#include <vector>

namespace espalier::sim {

struct ShareLevel {
  int gpus = 0;
  double throughput = 0;  // in a unit common to all jobs
};

struct ShareJob {
  std::vector<ShareLevel> levels;  // ascending GPUs; the first level is the job's minimum share
  int level = -1;                  // the level that it runs on; -1: it waits
};

// Returns the level of every job; -1: none. `jobs` are in the order of submission. `gpus`: all
// GPUs, including those of running jobs. A waiting job gets its minimum share, earlier jobs first.
// The GPUs are idle ones, then the GPUs of the step with the least gain per GPU among all jobs
// above their minimum. A job that cannot get its share lets the next job pass. After that, as long
// as some next level fits and is faster, GPUs go to the step with the highest gain in throughput
// per added GPU. Ties go to the earlier job.
std::vector<int> elasticflow_shares(std::span<const ShareJob> jobs, int gpus);

}  // namespace espalier::sim
