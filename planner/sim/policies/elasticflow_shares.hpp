// The heart of ElasticFlow (ASPLOS '23) where no job has a deadline: minimum shares in the order of
// admission, then GPUs to where they bring most.
#pragma once

#include <span>
#include <vector>

namespace espalier::sim {

struct ShareLevel {
  int gpus = 0;
  double throughput = 0;  // in units that jobs have in common
};

struct ShareJob {
  std::vector<ShareLevel> levels;  // ascending GPUs; the first is its minimum share
  int level = -1;                  // that it runs on; -1: it waits
};

// Level of every job, -1: none. `jobs` in the order of submission, `gpus`: all, those of running jobs included.
// Who waits gets its minimum share, earlier ones first: from idle GPUs, then from the step that is worth least per GPU
// of all jobs above their minimum; who cannot get it lets the next one pass. Then, as long as a next level fits and is
// faster, GPUs go to the highest gain in throughput per GPU that is added; ties to the earlier job.
std::vector<int> elasticflow_shares(std::span<const ShareJob> jobs, int gpus);

}  // namespace espalier::sim
