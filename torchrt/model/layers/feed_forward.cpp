#include "torchrt/model/layers/feed_forward.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "torchrt/model/layers/node.hpp"

namespace espalier::torchrt {

namespace {

struct GatedNode : torch::autograd::Node {
  at::Tensor gate, up;
  variable_list apply(variable_list&& outputs) override {
    const at::Tensor gradient = outputs[0];
    at::Tensor to_up = at::silu(gate).mul_(gradient);
    return {at::silu_backward(at::mul(gradient, up), gate), to_up};
  }
  void release_variables() override {
    gate.reset();
    up.reset();
  }
  std::string name() const override { return "Gated"; }
};

}  // namespace

at::Tensor activate(const Pass& pass, const at::Tensor& up) {
  if (pass.model.activation == Activation::silu) return at::silu(up);
  return at::gelu(up, pass.model.activation == Activation::gelu ? "none" : "tanh");
}

at::Tensor gated(const Pass& pass, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor output, plain_gate, plain_up;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    plain_gate = gate.detach();
    plain_up = up.detach();
    output = at::silu(plain_gate).mul_(plain_up);
  }
  if (pass.gradients == nullptr) return output;
  const auto node = make_node<GatedNode>(gate, up);
  node->gate = plain_gate;
  node->up = plain_up;
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace espalier::torchrt
