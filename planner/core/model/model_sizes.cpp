#include "planner/core/model/model_sizes.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"

namespace espalier {
namespace {

// unknown: data_parallel.hpp. Its sizes are one element each, until a profile tells them.
enum class Family { gpt2, llama, qwen2, unknown };

Family family_of(const std::string& name) {
  if (name == "gpt2") return Family::gpt2;
  if (name == "llama") return Family::llama;
  if (name == "qwen2") return Family::qwen2;
  if (name == kDataFamily) return Family::unknown;
  throw Error("model family \"" + name + "\": unknown; use one of gpt2, llama, qwen2");
}

// Width of the inner activations of a layer's MLP.
double inner(const ModelShape& shape) {
  const double hidden = shape.hidden;
  if (shape.intermediate > 0) return shape.intermediate;
  switch (family_of(shape.family)) {
    case Family::gpt2:
      return 4 * hidden;
    case Family::llama:
      return 256 * std::ceil(8 * hidden / 3 / 256);
    case Family::qwen2:
      return 16 * hidden / 3;
    case Family::unknown:
      return 0;
  }
  return 0;
}

// K and V heads in proportion to the query heads.
double key_value_share(const ModelShape& shape) {
  if (shape.key_value_heads > 0 && shape.heads > 0) return static_cast<double>(shape.key_value_heads) / shape.heads;
  return family_of(shape.family) == Family::qwen2 ? 1.0 / 7 : 1;
}

// Elements of all matrices of a layer. FLOPs are proportional to them.
double layer_matrices(const ModelShape& shape) {
  const double hidden = shape.hidden;
  switch (family_of(shape.family)) {
    case Family::gpt2:
      return 4 * hidden * hidden + 2 * hidden * inner(shape);
    case Family::llama:
    case Family::qwen2:
      return (2 + 2 * key_value_share(shape)) * hidden * hidden + 3 * hidden * inner(shape);
    case Family::unknown:
      return 1;
  }
  return 0;
}

// Activations of a layer that TP divides, in units of k_activ and without the attention's scores: Q, K, V, the
// attention's output and the inside of the MLP. Inside of the MLP: for GPT-2 before and after GELU; for SwiGLU the
// gate, its SiLU, the up projection and their product.
double projected_activations(const ModelShape& shape) {
  if (family_of(shape.family) == Family::gpt2) return 4 + 8;
  return 4 + 4 * inner(shape) / shape.hidden;
}

double score_elements(const ModelShape& shape) {
  return static_cast<double>(shape.heads) * shape.sequence / shape.hidden;
}

// Softmax's output, the dropout's output and half an element of mask (Korthikanti et al., eq. 1).
constexpr double kDroppedScores = 2.5;

// Scores that a layer keeps for its backward pass, in units of k_activ. Fused attention computes them again and keeps
// none. Its kernels exist for float32 and bfloat16, deterministic ones too; bfloat16 on GPUs before compute capability
// 8.0 has none, and there the observed memory tells more. Dropout of the scores by sample cannot be fused:
// espalier-train then keeps softmax's output in FP32, and the mask and the product of both in its own precision.
double kept_scores(const ModelShape& shape, double activation_bytes) {
  if (shape.keeps_scores)
    return *shape.keeps_scores ? (sizeof(float) / activation_bytes + 2) * score_elements(shape) : 0;
  return family_of(shape.family) == Family::gpt2 ? kDroppedScores * score_elements(shape) : 0;
}

// As the roofline's constants were fitted: with scores, which an unfused attention moves through memory.
double moved_activations(const ModelShape& shape) {
  const double scores = family_of(shape.family) == Family::gpt2 ? kDroppedScores : 1;
  return projected_activations(shape) + scores * score_elements(shape) + nonpartitioned_activations(shape.family);
}

}  // namespace

Training training_of(const ModelShape& shape, bool bitwise) {
  Training training;
  training.integer_sums = bitwise && shape.family != kDataFamily;
  if (!shape.setting) return training;
  training.sums_by_unit = shape.setting->program.starts_with("espalier-train ");
  if (shape.setting->precision != "float32") training.bytes = {2, 4, 12, 2};
  training.recompute = shape.setting->recompute;
  training.zero1 = shape.setting->zero1;
  return training;
}

std::vector<int> tp_degrees(const ModelShape& shape) {
  if (family_of(shape.family) == Family::unknown)  // the replica's GPUs
    return shape.units.empty() ? std::vector{std::max(1, shape.heads)} : shape.units;
  std::vector<int> degrees{1};
  const auto divides = [](int degree, int count) { return count == 0 || count % degree == 0; };
  for (int next = 2; shape.heads > 0 && divides(next, shape.heads) && divides(next, shape.key_value_heads) &&
                     divides(next, shape.intermediate);
       next *= 2)
    degrees.push_back(next);
  return degrees;
}

double layer_parameters(const ModelShape& shape) {
  const double hidden = shape.hidden;
  switch (family_of(shape.family)) {
    case Family::gpt2:
      return layer_matrices(shape) + 13 * hidden;
    case Family::llama:
      return layer_matrices(shape) + 2 * hidden;
    case Family::qwen2:
      return layer_matrices(shape) + (2 + 1 + 2 * key_value_share(shape)) * hidden;
    case Family::unknown:
      return 1;
  }
  return 0;
}

double embedding_parameters(const ModelShape& shape) {
  const double positions = family_of(shape.family) == Family::gpt2 ? shape.sequence : 0;
  return (shape.vocabulary + positions) * shape.hidden;
}

double head_parameters(const ModelShape& shape) {
  const double norm = family_of(shape.family) == Family::gpt2 ? 2 : 1;
  return (shape.vocabulary + norm) * shape.hidden;
}

double mtp_parameters(const ModelShape& shape) {
  const double hidden = shape.hidden;
  return 2 * hidden * hidden + 3 * hidden;
}

double total_parameters(const ModelShape& shape, bool tied) {
  return shape.layers * layer_parameters(shape) + shape.mtp_layers * mtp_parameters(shape) +
         embedding_parameters(shape) + head_parameters(shape) -
         (tied ? static_cast<double>(shape.vocabulary) * shape.hidden : 0);
}

double layer_flops(const ModelShape& shape) {
  const double sequence = shape.sequence;
  return 2 * sequence * layer_matrices(shape) + 4 * sequence * sequence * shape.hidden;
}

double head_layers(const ModelShape& shape) {
  return 2.0 * shape.sequence * shape.hidden * shape.vocabulary / layer_flops(shape);
}

double mtp_layers(const ModelShape& shape) {
  return head_layers(shape) + 4.0 * shape.sequence * shape.hidden * shape.hidden / layer_flops(shape);
}

double nonpartitioned_activations(const std::string& family) { return family_of(family) == Family::llama ? 7 : 5; }

JobCoefficients model_sizes(const ModelShape& shape, const Training& training, std::size_t gpu_types) {
  if (shape.layers < 1 || shape.hidden < 1 || shape.sequence < 1)
    throw Error("model shape: layers, hidden and sequence must be at least 1");
  ElementBytes bytes = training.bytes;
  if (training.integer_sums) bytes.gradient = sizeof(std::int64_t);
  JobCoefficients job;
  job.layers = shape.layers;
  job.global_batch = shape.global_batch;
  job.tp_degrees = tp_degrees(shape);
  job.activ_bytes = bytes.activation * shape.sequence * shape.hidden;
  if (shape.mtp_layers > 0) job.boundary_tensors = 2;
  const auto edge = [&](double parameters) {
    EdgeCoefficients result;
    result.param_bytes = bytes.gradient * parameters;
    result.param_optim_bytes = (bytes.weight + bytes.optimizer) * parameters;
    return result;
  };
  job.param_bytes = bytes.gradient * layer_parameters(shape);
  job.param_optim_bytes = (bytes.weight + bytes.optimizer) * layer_parameters(shape);
  job.weight_bytes = bytes.weight * layer_parameters(shape);
  job.activ_np_bytes = nonpartitioned_activations(shape.family) * job.activ_bytes;
  job.activ_p_bytes = (projected_activations(shape) + kept_scores(shape, bytes.activation)) * job.activ_bytes;
  // What the backward pass needs is written once, and read once by the operator after it.
  if (family_of(shape.family) != Family::unknown)
    job.traffic_per_flop = 2 * moved_activations(shape) * job.activ_bytes / layer_flops(shape);
  job.first = edge(embedding_parameters(shape));
  // MTP modules are layers like the others, the last ones. What they cost beyond a layer is taken to be where the head
  // is: their passes through it are, and plans put them there unless chunks say otherwise.
  const double ahead = shape.mtp_layers;
  job.last = edge(head_parameters(shape) + ahead * mtp_parameters(shape));
  job.last.compute_layers = head_layers(shape) + ahead * mtp_layers(shape);
  job.last.activation_bytes = 4.0 * shape.sequence * shape.vocabulary * (1 + ahead);  // logits, FP32 in every framework
  // A joined and two normed inputs of the projection.
  job.last.activation_bytes += ahead * 4 * job.activ_bytes;
  if (training.tied)
    job.tied_bytes = (bytes.weight + bytes.gradient + bytes.optimizer) * shape.vocabulary * shape.hidden;
  job.recompute = training.recompute;
  job.zero1 = training.zero1;
  job.integer_sums = training.integer_sums;
  job.sums_by_unit = training.sums_by_unit;
  // A matrix's two gradients take as long as each other; attention has no parameters. Recomputing leaves no part for
  // later.
  if (training.in_parts && !training.recompute && family_of(shape.family) != Family::unknown)
    job.deferred = shape.sequence * layer_matrices(shape) / layer_flops(shape);
  job.boundary_assumed = job.memory_assumed = true;
  job.gpu.resize(gpu_types);
  if (job.sums_by_unit)
    for (GpuCoefficients& gpu : job.gpu) gpu.overlap = kMostOverlap;
  return job;
}

}  // namespace espalier
