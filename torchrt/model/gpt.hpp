// GPT-2's units as functions on tensors. Includes torch: for model/*.cpp only.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "torchrt/config.hpp"

namespace espalier::torchrt {

using TensorMap = std::map<std::string, at::Tensor>;

// tokens [samples, sequence] -> [samples, sequence, hidden]
at::Tensor embed(const TensorMap& unit, const at::Tensor& tokens);
// [samples, sequence, hidden] -> the same
at::Tensor block(const TensorMap& unit, const ModelConfig& model, const at::Tensor& input);
// Sum of the cross entropies of all tokens.
at::Tensor head_loss(const TensorMap& unit, const ModelConfig& model, const at::Tensor& input,
                     const at::Tensor& targets);

}  // namespace espalier::torchrt
