#include "torchrt/model/layers/norm.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>

#include "torchrt/model/layers/node.hpp"

namespace espalier::torchrt {

namespace {

struct LayerNormNode : torch::autograd::Node {
  at::Tensor input, mean, deviation;
  NormParameters parameters;
  PutOffs* gradients = nullptr;

  variable_list apply(variable_list&& outputs) override {
    auto [flowing, weight, bias] =
        at::native_layer_norm_backward(outputs[0], input, {input.size(-1)}, mean, deviation, parameters.weight.value,
                                       parameters.bias.value, {true, true, true});
    gradients->push_back({PutOff::Kind::value, parameters.weight.index, weight, {}});
    gradients->push_back({PutOff::Kind::value, parameters.bias.index, bias, {}});
    return {flowing};
  }
  void release_variables() override {
    input.reset();
    mean.reset();
    deviation.reset();
  }
  std::string name() const override { return "LayerNorm"; }
};

// Computes in float32 for every input type, as `transformers` does. On a GPU torch's fused kernels
// do it.
struct RmsNorm {
  at::Tensor output, deviation;
};

RmsNorm rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) {
  if (input.is_cuda()) {
    auto [output, deviation] = at::_fused_rms_norm(input, {input.size(-1)}, weight, epsilon);
    return {output, deviation};
  }
  const at::Tensor wide = input.to(at::kFloat);
  at::Tensor deviation = at::mean(at::square(wide), {-1}, true).add_(epsilon).rsqrt_();
  at::Tensor output = at::mul(wide, deviation);
  if (input.scalar_type() != at::kFloat) output = output.to(input.scalar_type());
  return {output.mul_(weight), deviation};
}

std::pair<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& gradient, const at::Tensor& input,
                                                    const at::Tensor& deviation, const at::Tensor& weight) {
  if (input.is_cuda()) {
    auto [flowing, weight_gradient] =
        at::_fused_rms_norm_backward(gradient, input, {input.size(-1)}, deviation, weight, {true, true});
    return {flowing, weight_gradient};
  }
  const at::Tensor wide = gradient.to(at::kFloat);
  const at::Tensor normed = at::mul(input, deviation);
  at::Tensor weighted = at::mul(wide, normed);
  std::vector<std::int64_t> outer;
  for (std::int64_t d = 0; d + 1 < input.dim(); ++d) outer.push_back(d);
  const at::Tensor weight_gradient = at::sum(weighted, outer);
  const at::Tensor mean = at::mean(weighted.mul_(weight), {-1}, true);
  at::Tensor flowing = at::mul_out(weighted, wide, weight).addcmul_(normed, mean, -1).mul_(deviation);
  return {flowing.to(input.scalar_type()), weight_gradient};
}

struct RmsNormNode : torch::autograd::Node {
  at::Tensor input, deviation;
  Parameter weight;
  PutOffs* gradients = nullptr;

  variable_list apply(variable_list&& outputs) override {
    auto [flowing, weight_gradient] = rms_norm_backward(outputs[0], input, deviation, weight.value);
    gradients->push_back({PutOff::Kind::value, weight.index, weight_gradient, {}});
    return {flowing};
  }
  void release_variables() override {
    input.reset();
    deviation.reset();
  }
  std::string name() const override { return "RmsNorm"; }
};

at::Tensor layer_norm(const Pass& pass, const at::Tensor& input, const NormParameters& parameters) {
  at::Tensor output, mean, deviation, plain;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    plain = input.detach();
    std::tie(output, mean, deviation) = at::native_layer_norm(plain, {input.size(-1)}, parameters.weight.value,
                                                              parameters.bias.value, pass.model.norm_epsilon);
  }
  if (pass.gradients == nullptr) return output;
  const auto node = make_node<LayerNormNode>(input);
  node->input = plain;
  node->mean = mean;
  node->deviation = deviation;
  node->parameters = parameters;
  node->gradients = pass.gradients;
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace

at::Tensor norm(const Pass& pass, const at::Tensor& input, const NormParameters& parameters) {
  if (parameters.bias.value.defined()) return layer_norm(pass, input, parameters);
  RmsNorm result;
  at::Tensor plain;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    plain = input.detach();
    result = rms_norm(plain, parameters.weight.value, pass.model.norm_epsilon);
  }
  if (pass.gradients == nullptr) return result.output;
  const auto node = make_node<RmsNormNode>(input);
  node->input = plain;
  node->deviation = result.deviation;
  node->weight = parameters.weight;
  node->gradients = pass.gradients;
  torch::autograd::set_history(result.output, node);
  return result.output;
}

}  // namespace espalier::torchrt
