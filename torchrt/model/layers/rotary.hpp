// Rotary position embedding (Su et al. 2021) with LLaMA's stretching of its frequencies.
#pragma once

#include "torchrt/model/layers/pass.hpp"

namespace espalier::torchrt {

// Cosines and sines of every position and pair, [sequence, 1, head_size / 2].
struct RotaryTables {
  at::Tensor cosine, sine;
};

RotaryTables rotary_tables(const ModelConfig& model, const at::TensorOptions& options);
// `input`: [samples, tokens, heads, head_size], from position 0. Dimensions i and i + head_size / 2 turn as a
// pair.
at::Tensor rotate(const Pass& pass, const at::Tensor& input, const RotaryTables& all);

}  // namespace espalier::torchrt
