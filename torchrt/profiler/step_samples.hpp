// The figures of the last measured steps of one rank, and what they say together. Pure.
#pragma once

#include <deque>
#include <span>

#include "planner/core/model/profile.hpp"
#include "torchrt/profiler/op_recorder.hpp"

namespace espalier::torchrt {

class StepSamples {
 public:
  // Older steps are forgotten: a training may get faster or slower.
  static constexpr std::size_t kMost = 16;

  // Operations of whole steps, in order, in a plan of `micro_batches`.
  void add(std::span<const OpTimes> times, int micro_batches);
  int steps() const { return static_cast<int>(steps_.size()); }
  // The medians of each time, and the spread (step_statistics.hpp). Without steps all times are 0.
  ReplicaProfile summary() const;

 private:
  struct Step {
    ReplicaProfile times;
    double work = 0;  // ms
  };
  std::deque<Step> steps_;
};

}  // namespace espalier::torchrt
