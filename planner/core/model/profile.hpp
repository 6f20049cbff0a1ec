// What a running job reports of one configuration (Suika App. A.4.2: "full-spectrum" profiling). Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/core/model_shape.hpp"
#include "planner/core/plan.hpp"

namespace espalier {

// One replica of one stage, as its first rank measured it. Times in ms, means over some iterations; bytes are those on
// that one GPU. 0: not measured.
struct ReplicaProfile {
  int stage = 0, replica = 0;
  double fwd = 0;       // one micro-batch, with its all-reduces
  double comm_fwd = 0;  // the forward all-reduces in it; 0 at TP 1
  double bwd = 0;       // one micro-batch, without gradient synchronization
  double bwd_weights =
      0;  // of bwd, what is done when the gradient of the inputs has left: the stage before does not wait for it
  double optim = 0;  // one iteration
  // What of the stage's gradient synchronization the last backward pass did not hide; with ZeRO-1 the gathering of the
  // parameters too. The same for all replicas of a stage; 0 is a measurement.
  std::optional<double> sync;
  double gradient_bytes = 0;  // of the layers' trainable parameters
  double weight_bytes = 0;    // of the layers' parameters
  double state_bytes = 0;     // of the layers' parameters and optimizer state (with ZeRO-1: this rank's shard)
  double edge_gradient_bytes = 0, edge_state_bytes = 0;  // the same of embedding, final norm and LM head
  double peak_bytes = 0;                                 // allocator's peak, without context and communicator buffers
};

// Report the slowest replica of every GPU type on every stage, at least one replica of an inner stage where there is
// one.
struct Profile {
  Plan plan;
  ModelShape shape;
  double boundary_bytes = 0;  // activations at a stage boundary, per sample; 0: the pipeline has none
  bool recompute = false;
  bool zero1 = false;
  std::vector<ReplicaProfile> replicas;
  std::int64_t step = 0;  // the last one it averages over: what tells it from the one before
};

}  // namespace espalier
