// What a model's shape says of its sizes before any of it has been measured: parameters, activations, the edges' share
// of the computation. All of it is replaced by a profile's figures (calibrate.hpp).
//
// Sources. Parameters of a layer: GPT-2 12 h^2 + 13 h (Radford et al. 2019); LLaMA 4 h^2 + 3 h f + 2 h with f = 8/3 h
// rounded up to a multiple of 256 (Touvron et al. 2023); Qwen2 as LLaMA with biases on Q, K, V, one K/V head for seven
// query heads and f = 16/3 h, what its sizes up to 7B have (Qwen2 technical report 2024, Tab. 1). Activations of a
// layer: Korthikanti et al. 2022 (arXiv:2205.05198), eq. 1 and 2. The part that TP does not divide: Suika App. A.4.2,
// step 8.
#pragma once

#include <string>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model_shape.hpp"

namespace espalier {

// Bytes of one element. The default is FP32 training with Adam; BF16 with FP32 master weights: {2, 2 or 4, 12, 2}.
struct ElementBytes {
  double weight = 4, gradient = 4, optimizer = 8, activation = 4;
  bool operator==(const ElementBytes&) const = default;
};

// What a shape does not say.
struct Training {
  ElementBytes bytes;
  bool tied = false;  // embedding and LM head are one matrix; false over-claims memory, never the opposite
  bool recompute = false;
  bool zero1 = false;
};

double layer_parameters(const ModelShape& shape);
double embedding_parameters(const ModelShape& shape);  // with GPT-2's positions
double head_parameters(const ModelShape& shape);       // with the final norm
double total_parameters(const ModelShape& shape, bool tied);

// FLOPs of one layer for one sample, forward; and the LM head's in multiples of it.
double layer_flops(const ModelShape& shape);
double head_layers(const ModelShape& shape);

// C_np: k_activ-np / k_activ (Suika App. A.4.2).
double nonpartitioned_activations(const std::string& family);

// Coefficients with every size from the formulas and no times: `gpu_types` entries that are 0 and marked as assumed.
// Throws Error for an unknown family or a shape without layers, hidden size or sequence.
JobCoefficients model_sizes(const ModelShape& shape, const Training& training, std::size_t gpu_types);

}  // namespace espalier
