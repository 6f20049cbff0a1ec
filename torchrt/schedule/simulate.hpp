// How long a step takes when every operation takes a given time: the schedule's own bubble, to hold measurements
// against. Pure.
#pragma once

#include <functional>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// Seconds that an operation takes: of compute on its rank; of `send_*`, from the send to the arrival, during which the
// sender works on; of `reduce` and `gather`, from the last member's start to the end, one after the other in a group;
// of `agree`, after the last rank's arrival. Of receives and `finish_*` nothing is asked.
using Durations = std::function<double(int rank, const Op& op)>;

struct Simulation {
  double makespan = 0;       // seconds from the start of the step to its end on the last rank
  std::vector<double> busy;  // by rank: forward, backward and weight gradients
  // Share of the ranks' time in which they do none of these.
  double bubble() const;
};

// The schedule must be sound (check()).
Simulation simulate(const Schedule& schedule, const Durations& durations);

}  // namespace espalier::torchrt
