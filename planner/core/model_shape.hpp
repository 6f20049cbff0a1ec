// The model that a job trains, as far as planning goes.
#pragma once

#include <string>

namespace espalier {

// The model as the performance model sees it. Reported by the workers when they start.
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
