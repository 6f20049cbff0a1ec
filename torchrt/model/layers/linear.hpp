// Linear layers whose weight gradients are computed later, and their tensor-parallel forms
// (Megatron-LM, Shoeybi et al. 2019).
#pragma once

#include <span>

#include "torchrt/model/layers/pass.hpp"

namespace espalier::torchrt {

struct LinearParameters {
  Parameter weight, bias;
};

// Several layers with one input, cut by rows: every TP rank gets its part of the outputs. The
// gradient of the input is the sum over the layers and the TP ranks (Megatron's f).
std::vector<at::Tensor> linear_by_rows(const Pass& pass, const at::Tensor& input,
                                       std::span<const LinearParameters> layers);
// A layer cut by columns: takes this rank's part of the input and returns the whole output, summed
// over the TP ranks (Megatron's g), plus bias.
at::Tensor linear_by_columns(const Pass& pass, const at::Tensor& input, const LinearParameters& layer);

}  // namespace espalier::torchrt
