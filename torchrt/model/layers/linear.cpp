#include "torchrt/model/layers/linear.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "torchrt/model/layers/node.hpp"

namespace espalier::torchrt {

namespace {

at::Tensor rows_of(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }

// [..., input] x [output, input] -> [..., output]
at::Tensor apply_linear(const at::Tensor& rows, const at::Tensor& input, const Parameter& weight,
                        const at::Tensor& bias) {
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.value.size(0);
  const at::Tensor flat = bias.defined() ? at::addmm(bias, rows, weight.value.t()) : at::mm(rows, weight.value.t());
  return flat.view(shape);
}

struct LinearNode : torch::autograd::Node {
  at::Tensor input;  // as rows
  std::vector<std::int64_t> shape;
  std::vector<LinearParameters> layers;
  Group* input_group = nullptr;
  PutOffs* gradients = nullptr;

  variable_list apply(variable_list&& outputs) override {
    at::Tensor flowing;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!outputs[i].defined()) continue;
      const at::Tensor gradient = rows_of(outputs[i]);
      outputs[i].reset();
      flowing = flowing.defined() ? flowing.addmm_(gradient, layers[i].weight.value)
                                  : at::mm(gradient, layers[i].weight.value);
      gradients->push_back({PutOff::Kind::product, layers[i].weight.index, gradient, input});
      if (layers[i].bias.value.defined())
        gradients->push_back({PutOff::Kind::row_sum, layers[i].bias.index, gradient, {}});
    }
    sum_over(input_group, flowing);
    return {flowing.view(shape)};
  }
  void release_variables() override { input.reset(); }
  std::string name() const override { return "Linear"; }
};

std::shared_ptr<LinearNode> make_linear_node(const Pass& pass, const at::Tensor& input, const at::Tensor& rows,
                                             std::span<const LinearParameters> layers) {
  auto node = make_node<LinearNode>(input);
  node->input = rows;
  node->shape = input.sizes().vec();
  node->layers.assign(layers.begin(), layers.end());
  node->gradients = pass.gradients;
  return node;
}

}  // namespace

std::vector<at::Tensor> linear_by_rows(const Pass& pass, const at::Tensor& input,
                                       std::span<const LinearParameters> layers) {
  std::vector<at::Tensor> outputs;
  at::Tensor rows;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    rows = rows_of(input);
    for (const LinearParameters& layer : layers)
      outputs.push_back(apply_linear(rows, input, layer.weight, layer.bias.value));
  }
  if (pass.gradients == nullptr) return outputs;
  const auto node = make_linear_node(pass, input, rows, layers);
  node->input_group = pass.tensor_group;
  for (const at::Tensor& output : outputs) torch::autograd::set_history(output, node);
  return outputs;
}

at::Tensor linear_by_columns(const Pass& pass, const at::Tensor& input, const LinearParameters& layer) {
  at::Tensor output, rows;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    rows = rows_of(input);
    const bool whole = pass.tensor_group == nullptr;
    output = apply_linear(rows, input, layer.weight, whole ? layer.bias.value : at::Tensor());
    if (!whole) {
      sum_over(pass.tensor_group, output);
      if (layer.bias.value.defined()) output.add_(layer.bias.value);
    }
  }
  if (pass.gradients != nullptr) torch::autograd::set_history(output, make_linear_node(pass, input, rows, {&layer, 1}));
  return output;
}

}  // namespace espalier::torchrt
