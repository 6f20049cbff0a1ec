#include "torchrt/model/layers/embedding.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/sum.h>

#include "torchrt/model/layers/node.hpp"

namespace espalier::torchrt {

namespace {

struct EmbeddingNode : torch::autograd::Node {
  // Rows of this rank's table; true where the token is another rank's.
  at::Tensor tokens, elsewhere;
  EmbeddingParameters parameters;
  PutOffs* gradients = nullptr;

  variable_list apply(variable_list&& outputs) override {
    const at::Tensor gradient = outputs[0];
    if (parameters.positions.value.defined())
      gradients->push_back({PutOff::Kind::value, parameters.positions.index, at::sum(gradient, 0), {}});
    const at::Tensor rows = gradient.reshape({-1, gradient.size(-1)});
    gradients->push_back({PutOff::Kind::scatter, parameters.table.index,
                          elsewhere.defined() ? rows.masked_fill(elsewhere, 0) : rows, tokens});
    return {};
  }
  void release_variables() override {
    tokens.reset();
    elsewhere.reset();
  }
  std::string name() const override { return "Embedding"; }
};

}  // namespace

at::Tensor embed(const Pass& pass, const at::Tensor& tokens, const EmbeddingParameters& parameters) {
  at::Tensor output, rows, elsewhere;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    rows = tokens.reshape({-1});
    if (pass.tensor_group != nullptr) {
      rows = rows.sub(parameters.rows.first);
      elsewhere = rows.lt(0).logical_or_(rows.ge(parameters.rows.count)).unsqueeze_(1);
      rows.clamp_(0, parameters.rows.count - 1);
    }
    output = at::embedding(parameters.table.value, rows);
    if (pass.tensor_group != nullptr) {
      output.masked_fill_(elsewhere, 0);
      sum_over(pass.tensor_group, output);
    }
    output = output.view({tokens.size(0), tokens.size(1), output.size(1)});
    if (parameters.positions.value.defined()) output.add_(parameters.positions.value.narrow(0, 0, tokens.size(1)));
  }
  if (pass.gradients == nullptr) return output;
  const auto node = make_node<EmbeddingNode>();
  node->tokens = rows;
  node->elsewhere = elsewhere;
  node->parameters = parameters;
  node->gradients = pass.gradients;
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace espalier::torchrt
