// The embedding, and the head with its loss. Both are cut by vocabulary over the tensor-parallel
// ranks.
#pragma once

#include "torchrt/model/layers/pass.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// `rows`: the part of the vocabulary in this rank's table. `positions` may have no value.
struct EmbeddingParameters {
  Parameter table, positions;
  Range rows;
};

// tokens [samples, sequence] -> [samples, sequence, hidden]
at::Tensor embed(const Pass& pass, const at::Tensor& tokens, const EmbeddingParameters& parameters);

struct HeadParameters {
  Parameter weight;
  Range rows;
};

// Sum of the cross entropies of all tokens, in float64, the same on all TP ranks. The sum is not
// scaled, but its gradient is the gradient of `scale` times the sum, whatever gradient flows in.
// `input` is [samples, sequence, hidden], `targets` [samples, sequence].
at::Tensor head_loss(const Pass& pass, const at::Tensor& input, const at::Tensor& targets,
                     const HeadParameters& parameters, double scale);

}  // namespace espalier::torchrt
