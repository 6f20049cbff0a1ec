// Estimates of a model's sizes from its shape, before anything was measured: parameters,
// activations, and the edges' share of the computation. A profile's figures replace all of them
// (calibrate.hpp).
//
// Sources:
// - Parameters of a GPT-2 layer: 12 h^2 + 13 h (Radford et al. 2019).
// - Parameters of a LLaMA layer: 4 h^2 + 3 h f + 2 h with f = 8/3 h rounded up to a multiple of 256
//   (Touvron et al. 2023).
// - Parameters of a Qwen2 layer: as LLaMA, but with biases on Q, K, V, one K/V head for seven query
//   heads, and f = 16/3 h, as in its sizes up to 7B (Qwen2 technical report 2024, Tab. 1).
// - Activations of a layer: Korthikanti et al. 2022 (arXiv:2205.05198), eq. 1 and 2, but without the attention's scores
//   where fused attention keeps none (ModelShape::keeps_scores).
// - Activations that TP does not divide: Suika App. A.4.2, step 8.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model_shape.hpp"

namespace espalier {

// Bytes of one element. The default is FP32 training with Adam. BF16 with FP32 master weights is
// {2, 4, 12, 2}: gradients are summed in FP32.
struct ElementBytes {
  double weight = 4, gradient = 4, optimizer = 8, activation = 4;
  bool operator==(const ElementBytes&) const = default;
};

// Properties of a training that its model's shape does not contain.
struct Training {
  ElementBytes bytes;
  // Embedding and LM head are one matrix, and the program keeps it once where both are on one stage. A wrong `false`
  // overestimates memory and never underestimates it. espalier-train keeps two.
  bool tied = false;
  bool recompute = false;
  bool zero1 = false;
  bool integer_sums = false, sums_by_unit = false;  // as in JobCoefficients
  // A schedule may do the gradients of parameters apart: assume which share of the backward pass they are.
  bool in_parts = false;
};

// The training that a worker's report of its shape describes. Mixed precision keeps FP32 master
// weights beside the moments. `bitwise`: the job's accuracy; a program of unknown kind promises none.
Training training_of(const ModelShape& shape, bool bitwise);

// The powers of two that the training runtime can divide a layer by (torchrt/model/units.cpp), ascending. Family
// "data": the GPUs that a replica may have.
std::vector<int> tp_degrees(const ModelShape& shape);

double layer_parameters(const ModelShape& shape);
double embedding_parameters(const ModelShape& shape);  // including GPT-2's positions
double head_parameters(const ModelShape& shape);       // including the final norm
// Of an MTP module, beside its layer: two norms and the projection of 2 h to h (DeepSeek-V3, eq. 21), and the norm
// before the head.
double mtp_parameters(const ModelShape& shape);
double total_parameters(const ModelShape& shape, bool tied);

// layer_flops: forward FLOPs of one layer for one sample. head_layers: the LM head's forward FLOPs
// in multiples of a layer's.
double layer_flops(const ModelShape& shape);
double head_layers(const ModelShape& shape);
// In the same unit: an MTP module's forward FLOPs beyond its layer's, its pass through the LM head included.
double mtp_layers(const ModelShape& shape);

// C_np: k_activ-np / k_activ (Suika App. A.4.2).
double nonpartitioned_activations(const std::string& family);

// Coefficients with all sizes from the formulas and without times: the `gpu_types` entries are 0
// and marked as assumed. Throws Error for an unknown family or a shape without layers, hidden size
// or sequence.
JobCoefficients model_sizes(const ModelShape& shape, const Training& training, std::size_t gpu_types);

}  // namespace espalier
