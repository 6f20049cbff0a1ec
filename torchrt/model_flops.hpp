// Model FLOPS and what a card could do at most: the two sides of MFU. Pure.
#pragma once

#include <string>

#include "torchrt/comm/buffer.hpp"
#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

// Of training on one token: 6 N + 12 L H Q T (Chowdhery et al., "PaLM", 2022, appendix B). N counts the weights that
// are multiplied: all matrices but the tables that are only looked up; a tied table counts as the head. L layers, H
// heads of size Q, T tokens per sample. Recomputation counts nothing.
double model_flops_per_token(const ModelConfig& model);

// The same by unit and pass: what one rank of `tp` does for one token on its shard of a unit. Their sum over all units
// is model_flops_per_token() / tp.
struct UnitFlops {
  double forward = 0;
  double backward = 0;         // gradients of the unit's inputs
  double weight_gradient = 0;  // and of its parameters
  double update = 0;           // not of a token but of a step: AdamW, 16 for each parameter
};
UnitFlops unit_flops(const ModelConfig& model, int unit, int tp);

// Of one card per second, dense, by the vendor's data sheet: tensor cores for bfloat16, none for float32 (the runtime
// does not round to TF32). `card` as the driver calls it. 0: not known.
double peak_flops(const std::string& card, DataType type);

}  // namespace espalier::torchrt
