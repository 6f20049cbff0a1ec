// The heart of ElasticFlow (ASPLOS '23, §4.2-4.3) where no job has a deadline: minimum shares in the order of
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
  bool admitted = false;           // runs already: keeps at least its minimum share
};

// Level of every job, -1: none. `jobs` in the order of submission. Admitted jobs get their minimum share first, then
// as many of the others as fit, earlier ones first; then, as long as a next level fits and is faster, the one with the
// highest gain in throughput per GPU that it adds; ties to the earlier job.
std::vector<int> elasticflow_shares(std::span<const ShareJob> jobs, int gpus);

}  // namespace espalier::sim
