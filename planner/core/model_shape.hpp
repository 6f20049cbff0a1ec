// The parts of a job's model that planning needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace espalier {

// How a model is trained. Jobs with the same shape and setting have the same coefficients on the
// same GPUs. Empty texts: the program did not tell.
struct TrainingSetting {
  std::string program;    // "espalier-train 0.1.0"
  std::string runtime;    // everything else that decides its speed: "torch 2.11.0, 1 thread"
  std::string precision;  // of parameters and activations: "float32"
  std::string schedule;   // of the pipeline: "1f1b"
  bool recompute = false;
  bool zero1 = false;
  bool operator==(const TrainingSetting&) const = default;
};

// Input of the performance model. The workers report it when they start.
struct ModelShape {
  std::string family;  // "gpt2", ...
  int layers = 0;      // what plans count: transformer layers, then the `mtp_layers` MTP modules
  int hidden = 0;
  int heads = 0;
  int sequence = 0;  // tokens per sample
  int vocabulary = 0;
  int global_batch = 0;   // samples per iteration
  int micro_batches = 0;  // N_b that the user configured
  // A tensor-parallel degree must divide heads, key_value_heads and intermediate. 0: not told; it
  // is then taken not to limit the degree.
  int key_value_heads = 0;
  int intermediate = 0;  // width of a layer's feed-forward
  // Modules for multi-token prediction among `layers`. They are the last ones; each costs a projection and another pass
  // through the LM head beside its layer. May be absent.
  int mtp_layers = 0;
  // Family "data" (data_parallel.hpp): the numbers of GPUs that a replica may have, ascending. May be absent: `heads`.
  std::vector<int> units = {};
  bool tied = false;                                      // embedding and LM head are one matrix; may be absent
  std::optional<TrainingSetting> setting = std::nullopt;  // may be absent
  // Layers keep the attention's scores for the backward pass, as dropout of them needs. May be absent: gpt2's are then
  // taken to keep them, and no other family's.
  std::optional<bool> keeps_scores = std::nullopt;
  bool operator==(const ModelShape&) const = default;
};

}  // namespace espalier
