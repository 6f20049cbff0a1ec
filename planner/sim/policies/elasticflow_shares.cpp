#include "planner/sim/policies/elasticflow_shares.hpp"

#include <cstddef>

namespace espalier::sim {

std::vector<int> elasticflow_shares(std::span<const ShareJob> jobs, int gpus) {
  std::vector<int> level(jobs.size(), -1);
  for (const bool admitted : {true, false})
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (jobs[j].admitted != admitted || jobs[j].levels.empty() || jobs[j].levels.front().gpus > gpus) continue;
      level[j] = 0;
      gpus -= jobs[j].levels.front().gpus;
    }
  for (;;) {
    double best = 0;
    std::size_t winner = jobs.size();
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const auto next = static_cast<std::size_t>(level[j] + 1);
      if (level[j] < 0 || next >= jobs[j].levels.size()) continue;
      const ShareLevel &now = jobs[j].levels[next - 1], &then = jobs[j].levels[next];
      if (then.gpus - now.gpus > gpus) continue;
      const double gain = (then.throughput - now.throughput) / (then.gpus - now.gpus);
      if (gain > best) best = gain, winner = j;
    }
    if (winner == jobs.size()) return level;
    const auto next = static_cast<std::size_t>(++level[winner]);
    gpus -= jobs[winner].levels[next].gpus - jobs[winner].levels[next - 1].gpus;
  }
}

}  // namespace espalier::sim
