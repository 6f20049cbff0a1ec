// A running job's report of one configuration (Suika App. A.4.2: "full-spectrum" profiling). Plain
// data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/model_shape.hpp"
#include "planner/core/plan.hpp"

namespace espalier {

// One replica of one stage, as its first rank measured it. Times are in ms: means or medians over
// some iterations. Bytes are the bytes on that rank's GPU. 0: not measured.
struct ReplicaProfile {
  int stage = 0, replica = 0;
  double fwd = 0;       // one micro-batch, including its all-reduces
  double comm_fwd = 0;  // the part of fwd in all-reduces; 0 at TP 1
  double bwd = 0;       // one micro-batch, without gradient synchronization
  // The part of bwd after the gradient of the inputs has left. The stage before does not wait for
  // it.
  double bwd_weights = 0;
  double optim = 0;  // one iteration
  // Part of the stage's gradient synchronization that the last backward pass did not hide. With
  // ZeRO-1 it includes the gathering of the parameters. The same for all replicas of a stage. 0 is
  // a measurement.
  std::optional<double> sync;
  double gradient_bytes = 0;  // of the layers' trainable parameters
  double weight_bytes = 0;    // of the layers' parameters
  double state_bytes = 0;     // of the layers' parameters and optimizer state (with ZeRO-1: this rank's shard)
  // The same of embedding, final norm and LM head.
  double edge_gradient_bytes = 0, edge_state_bytes = 0;
  double peak_bytes = 0;  // allocator's peak, without context and communicator buffers
  // How well the replica's work of one iteration is known, as a share of it (step_statistics.hpp).
  // Absent: the program does not tell.
  std::optional<double> spread;
};

// One layer's computation on the shard of one of `tp` ranks: `samples` of a micro-batch, forward and backward with the
// gradients of parameters, without sums between ranks. A median, in ms.
struct LayerTime {
  int tp = 1, samples = 1;
  double ms = 0;
  bool operator==(const LayerTime&) const = default;
};

// The same of the embedding, and of the final norm with the head and the loss. 0: too short to be measured.
struct EdgeTimes {
  int tp = 1, samples = 1;
  double first_ms = 0, last_ms = 0;
  bool operator==(const EdgeTimes&) const = default;
};

// Should contain the slowest replica of every GPU type on every stage, and at least one replica of
// an inner stage if there is one.
struct Profile {
  Plan plan;
  ModelShape shape;
  // Activations at a stage boundary, per sample, also where the plan has no boundary. 0: the program does not tell.
  double boundary_bytes = 0;
  bool recompute = false;
  bool zero1 = false;
  std::vector<ReplicaProfile> replicas;
  std::int64_t step = 0;  // the last step of the average; identifies the profile
  int steps = 0;          // measured steps that the figures are medians of; 0: the program does not tell
  // A layer alone on one device, before training, for several degrees and numbers of samples (layer_times.hpp). Empty:
  // not measured. Every profile of a generation has the same.
  std::vector<LayerTime> layer_times = {};
  std::optional<EdgeTimes> edge_times = {};  // with one of the layer_times' degrees and numbers of samples
  std::string driver;                        // the GPU driver's version; empty: none, or not told
};

}  // namespace espalier
