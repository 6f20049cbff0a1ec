// What the actions of a schedule cost: time, and memory of activations. Pure plain data. (FlexTrain §4.2: nodes with
// measured time and memory change.)
#pragma once

#include <vector>

namespace espalier::pipeline {

// One chunk on one micro-batch. Times are in any one unit, memory in any one unit.
struct ChunkCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double backward = 2;        // as a whole: often less than in parts
  double activation = 1;      // kept from the start of forward to the end of B or W
  double freed_by_input = 0;  // part of `activation` that I frees already; W frees the rest
  // From the end of an action to the arrival of its result on another rank; nothing on the same rank.
  double send_forward = 0;   // output of the chunk to the next chunk
  double send_backward = 0;  // gradient of its inputs to the chunk before
};

using Costs = std::vector<ChunkCosts>;  // by chunk

// Time of a message of `bytes` over a link of `latency` and `bandwidth` (bytes per unit of time).
inline double message_time(double bytes, double latency, double bandwidth) { return latency + bytes / bandwidth; }

}  // namespace espalier::pipeline
