// A transformer block of any family, put together by the family's description. Includes torch.
#pragma once

#include <functional>
#include <optional>

#include "torchrt/model/family.hpp"
#include "torchrt/model/layers/linear.hpp"
#include "torchrt/model/layers/norm.hpp"
#include "torchrt/model/layers/rotary.hpp"

namespace espalier::torchrt {

struct BlockParameters {
  NormParameters attention_norm, feed_forward_norm;
  std::vector<LinearParameters> query_key_value;  // one fused, or three
  LinearParameters attention_output, down;
  std::vector<LinearParameters> up;  // up, or gate and up
};

// The unit's tensor of this name; without a value when the unit has none.
using FindParameter = std::function<Parameter(const std::string&)>;

BlockParameters block_parameters(const Family& family, const FindParameter& find);

// [samples, sequence, hidden] -> the same. `rotary`: only for families without learned positions.
at::Tensor block(const Pass& pass, const at::Tensor& input, const BlockParameters& parameters,
                 const std::optional<RotaryTables>& rotary);

}  // namespace espalier::torchrt
