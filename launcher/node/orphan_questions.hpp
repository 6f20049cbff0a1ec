// Decides when a keeper of the anchor asks Slurm whether the job still has the launcher's node. Pure: the keeper passes
// time and what it saw.
//
// A job that outlives the loss of a node outlives that of the launcher's node, too. Nobody answers there any more, so
// only Slurm can tell that this node is lost and not cut off for a while. Slurm takes minutes to find out. Thousands of
// keepers wait for it, and slurmctld hears one question a second from all of them.
#pragma once

#include <algorithm>
#include <chrono>

namespace espalier::launcher {

class OrphanQuestions {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `place`: which of the `nodes` nodes of the step is the keeper's, from 0. The first ones ask first, so that the
  // others need not where one of them finds that the launcher's node is gone.
  OrphanQuestions(int place, int nodes)
      : first_(kPatience + kBetween * std::max(place, 0)), again_(std::max(kPatience, kBetween * nodes)) {}

  void found() { away_ = false; }  // the launcher has accepted this keeper
  // The connection to it. Further losses before found() change nothing.
  void lost(Time now) {
    if (!away_) next_ = now + first_;
    away_ = true;
  }
  // Slurm is to be asked now.
  bool asks(Time now) {
    if (!away_ || now < next_) return false;
    next_ += again_;
    if (next_ <= now) next_ = now + again_;  // this process stood still
    return true;
  }

 private:
  static constexpr std::chrono::seconds kPatience{30}, kBetween{1};
  const std::chrono::seconds first_, again_;
  bool away_ = false;  // there was a launcher, and there is none
  Time next_{};        // while it is away
};

}  // namespace espalier::launcher
