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

// Of one card per second, dense, by the vendor's data sheet: tensor cores for bfloat16, none for float32 (the runtime
// does not round to TF32). `card` as the driver calls it. 0: not known.
double peak_flops(const std::string& card, DataType type);

}  // namespace espalier::torchrt
