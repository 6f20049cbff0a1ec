// The two sides of MFU: the FLOPs of the model, and the peak of a card. Pure.
#pragma once

#include <string>

#include "torchrt/comm/buffer.hpp"
#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

// FLOPs of training on one token: 6 N + 12 L H Q T (Chowdhery et al., "PaLM", 2022, appendix B). N
// is the number of weights that are multiplied: all matrices except tables that are only looked up.
// A tied table counts as the head. L layers, H heads of size Q, T tokens per sample. Recomputation
// is not counted. MTP modules count as layers, and the head once more for each of them.
double model_flops_per_token(const ModelConfig& model);

// The same by unit and pass: the FLOPs of one rank of `tp` for one token, on its shard of a unit.
// Without `update`, the sum over all units is model_flops_per_token() / tp.
struct UnitFlops {
  double forward = 0;
  double backward = 0;         // gradients with respect to the unit's input
  double weight_gradient = 0;  // gradients of the unit's parameters
  double update = 0;           // per step, not per token: AdamW, 16 for each parameter
};
UnitFlops unit_flops(const ModelConfig& model, int unit, int tp);

// FLOPs per second of one card, dense, by the vendor's data sheet. bfloat16 uses tensor cores;
// float32 does not, because the runtime does not round to TF32. `card` is the driver's name of the
// card. 0: unknown.
double peak_flops(const std::string& card, DataType type);

}  // namespace espalier::torchrt
