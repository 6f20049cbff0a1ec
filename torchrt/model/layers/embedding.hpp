// The embedding and the head with its loss, both cut by vocabulary over the tensor-parallel ranks.
#pragma once

#include "torchrt/model/layers/pass.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// `rows`: which of the vocabulary this rank's table holds. `positions` may have no value.
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

// Sum of the cross entropies of all tokens, in float64, the same on all TP ranks; not scaled, but its gradient is that
// of `scale` times the sum, whatever flows in. `input` [samples, sequence, hidden], targets [samples, sequence].
at::Tensor head_loss(const Pass& pass, const at::Tensor& input, const at::Tensor& targets,
                     const HeadParameters& parameters, double scale);

}  // namespace espalier::torchrt
