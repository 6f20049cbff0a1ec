// The nonlinear middle of a feed-forward.
#pragma once

#include "torchrt/model/layers/pass.hpp"

namespace espalier::torchrt {

at::Tensor activate(const Pass& pass, const at::Tensor& up);
// silu(gate) * up (SwiGLU, Shazeer 2020); keeps only its two inputs for backward.
at::Tensor gated(const Pass& pass, const at::Tensor& gate, const at::Tensor& up);

}  // namespace espalier::torchrt
