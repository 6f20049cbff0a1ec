// Linear layers whose weight gradients are put off, and their tensor-parallel forms (Megatron-LM, Shoeybi et al. 2019).
#pragma once

#include <span>

#include "torchrt/model/layers/pass.hpp"

namespace espalier::torchrt {

struct LinearParameters {
  Parameter weight, bias;
};

// Several layers of one input, cut by rows: every TP rank gets its part of the outputs. The gradient of the input is
// the sum over the layers and the TP ranks (Megatron's f).
std::vector<at::Tensor> linear_by_rows(const Pass& pass, const at::Tensor& input,
                                       std::span<const LinearParameters> layers);
// Cut by columns: takes parts of the input, gives the whole output, summed over the TP ranks (Megatron's g), plus bias.
at::Tensor linear_by_columns(const Pass& pass, const at::Tensor& input, const LinearParameters& layer);

}  // namespace espalier::torchrt
