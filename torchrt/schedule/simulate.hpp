// Computes how long a step takes when every operation takes a given time. The result is the
// schedule's own bubble, to compare with measurements. Pure.
#pragma once

#include <functional>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// Seconds that an operation takes. Compute: on its rank. `send_*`: from the send to the arrival;
// the sender works on meanwhile. `reduce` and `gather`: from the last member's start to the end,
// one after the other in a group. `agree`: after the last rank's arrival. Not called for receives
// and `finish_*`.
using Durations = std::function<double(int rank, const Op& op)>;

struct Simulation {
  double makespan = 0;       // seconds from the start of the step to its end on the last rank
  std::vector<double> busy;  // by rank: forward, backward and weight gradients
  // Share of the ranks' time in which they are not busy.
  double bubble() const;
};

// The schedule must be sound (check()).
Simulation simulate(const Schedule& schedule, const Durations& durations);

}  // namespace espalier::torchrt
