#include "planner/sim/policies/elasticflow_shares.hpp"

#include <cstddef>

namespace espalier::sim {
namespace {

class Shares {
 public:
  Shares(std::span<const ShareJob> jobs, int gpus) : jobs_(jobs), idle_(gpus) {
    for (const ShareJob& job : jobs) {
      level_.push_back(job.level);
      if (job.level >= 0) idle_ -= job.levels[static_cast<std::size_t>(job.level)].gpus;
    }
  }

  std::vector<int> run() {
    for (std::size_t j = 0; j < jobs_.size(); ++j)
      if (jobs_[j].level < 0 && !jobs_[j].levels.empty()) admit(j);
    while (step_up()) {
    }
    return level_;
  }

 private:
  struct Step {
    int gpus = 0;
    double gain = 0;  // per GPU
  };
  // The step from `level` to the next level. gpus == 0: there is none.
  Step step(std::size_t job, int level) const {
    const auto next = static_cast<std::size_t>(level + 1);
    if (level < 0 || next >= jobs_[job].levels.size()) return {};
    const ShareLevel &now = jobs_[job].levels[next - 1], &then = jobs_[job].levels[next];
    return {then.gpus - now.gpus, (then.throughput - now.throughput) / (then.gpus - now.gpus)};
  }

  void admit(std::size_t job) {
    const auto levels = level_;
    const int idle = idle_, share = jobs_[job].levels.front().gpus;
    while (idle_ < share)
      if (!step_down()) {
        level_ = levels;
        idle_ = idle;
        return;
      }
    level_[job] = 0;
    idle_ -= share;
  }

  bool step_down() {
    std::size_t victim = jobs_.size();
    Step least;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      if (level_[j] <= 0) continue;
      const Step last = step(j, level_[j] - 1);
      if (victim == jobs_.size() || last.gain < least.gain) least = last, victim = j;
    }
    if (victim == jobs_.size()) return false;
    --level_[victim];
    idle_ += least.gpus;
    return true;
  }

  bool step_up() {
    std::size_t winner = jobs_.size();
    Step best;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      const Step next = step(j, level_[j]);
      if (next.gpus > 0 && next.gpus <= idle_ && next.gain > best.gain) best = next, winner = j;
    }
    if (winner == jobs_.size()) return false;
    ++level_[winner];
    idle_ -= best.gpus;
    return true;
  }

  const std::span<const ShareJob> jobs_;
  std::vector<int> level_;
  int idle_ = 0;
};

}  // namespace

std::vector<int> elasticflow_shares(std::span<const ShareJob> jobs, int gpus) { return Shares(jobs, gpus).run(); }

}  // namespace espalier::sim
