#include "torchrt/model/gpt.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>

namespace espalier::torchrt {

namespace {

constexpr double kNormEpsilon = 1e-5;

at::Tensor norm(const TensorMap& unit, const std::string& name, const at::Tensor& input) {
  return at::layer_norm(input, {input.size(-1)}, unit.at(name + ".weight"), unit.at(name + ".bias"), kNormEpsilon);
}

at::Tensor affine(const TensorMap& unit, const std::string& name, const at::Tensor& input) {
  return at::linear(input, unit.at(name + ".weight"), unit.at(name + ".bias"));
}

at::Tensor attention(const TensorMap& unit, const ModelConfig& model, const at::Tensor& input) {
  const std::int64_t samples = input.size(0), sequence = input.size(1), hidden = input.size(2);
  const at::Tensor joint = affine(unit, "attn.c_attn", input)
                               .view({samples, sequence, 3, model.heads, hidden / model.heads})
                               .permute({2, 0, 3, 1, 4});
  const at::Tensor mixed = at::scaled_dot_product_attention(joint.select(0, 0), joint.select(0, 1), joint.select(0, 2),
                                                            std::nullopt, 0.0, true);
  return affine(unit, "attn.c_proj", mixed.transpose(1, 2).reshape({samples, sequence, hidden}));
}

}  // namespace

at::Tensor embed(const TensorMap& unit, const at::Tensor& tokens) {
  return at::embedding(unit.at("wte.weight"), tokens).add(unit.at("wpe.weight").narrow(0, 0, tokens.size(1)));
}

at::Tensor block(const TensorMap& unit, const ModelConfig& model, const at::Tensor& input) {
  const at::Tensor middle = input.add(attention(unit, model, norm(unit, "ln_1", input)));
  const at::Tensor wide = at::gelu(affine(unit, "mlp.c_fc", norm(unit, "ln_2", middle)), "tanh");
  return middle.add(affine(unit, "mlp.c_proj", wide));
}

at::Tensor head_loss(const TensorMap& unit, const ModelConfig& model, const at::Tensor& input,
                     const at::Tensor& targets) {
  const at::Tensor logits = at::linear(norm(unit, "ln_f", input), unit.at("lm_head.weight"));
  return at::cross_entropy_loss(logits.view({-1, model.vocabulary}), targets.view({-1}), {}, at::Reduction::Sum);
}

}  // namespace espalier::torchrt
