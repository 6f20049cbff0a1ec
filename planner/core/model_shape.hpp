// The parts of a job's model that planning needs.
#pragma once

#include <string>

namespace espalier {

// Input of the performance model. The workers report it when they start.
struct ModelShape {
  std::string family;  // "gpt2", ...
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int sequence = 0;  // tokens per sample
  int vocabulary = 0;
  int global_batch = 0;   // samples per iteration
  int micro_batches = 0;  // N_b that the user configured
  bool operator==(const ModelShape&) const = default;
};

}  // namespace espalier
