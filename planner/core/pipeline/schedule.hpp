// A pipeline schedule as data: which rank computes what, in which order. Pure plain data.
//
// A model is cut into chunks, 0 .. chunks-1 in the order of the model. A pipeline rank holds one chunk or several. A
// training step runs every chunk once forward and once backward on every micro-batch. Sends, receives and sums of
// gradients are not listed: they follow from the order of the computations.
//
// Example, 2 ranks, 2 chunks, 2 micro-batches, 1F1B: rank 0: F0.0 F0.1 B0.0 B0.1; rank 1: F1.0 B1.0 F1.1 B1.1
// (chunk.micro-batch).
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::pipeline {

enum class Compute : std::uint8_t {
  forward,          // F
  backward,         // B: gradients of the inputs and of the parameters
  backward_input,   // I: gradients of the inputs only (zero bubble)
  backward_weight,  // W: gradients of the parameters, which I left out
};

struct Action {
  Compute kind = Compute::forward;
  int chunk = 0;        // in the whole model
  int micro_batch = 0;  // of the step
  bool operator==(const Action&) const = default;
};

struct Schedule {
  int micro_batches = 0;
  std::vector<int> rank_of_chunk;            // size: number of chunks
  std::vector<std::vector<Action>> actions;  // one list per pipeline rank, in the order of execution
  bool operator==(const Schedule&) const = default;
};

}  // namespace espalier::pipeline
