// Layer norm and RMS norm.
#pragma once

#include "torchrt/model/layers/pass.hpp"

namespace espalier::torchrt {

struct NormParameters {
  Parameter weight, bias;  // no bias: RMS norm
};

at::Tensor norm(const Pass& pass, const at::Tensor& input, const NormParameters& parameters);

}  // namespace espalier::torchrt
