#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "torchrt/model/layers/embedding.hpp"
#include "torchrt/model/layers/node.hpp"

namespace espalier::torchrt {

namespace {

// The ingredients of the logits' gradient. `values`: log-probabilities in float32 [tokens,
// vocabulary of this rank]. `targets`: where in them each token's target is. `elsewhere`: true
// where the target is another rank's.
struct LogProbabilities {
  at::Tensor values, targets, elsewhere;
  at::Tensor of_targets() const {
    const at::Tensor found = values.gather(1, targets);
    return elsewhere.defined() ? found.masked_fill(elsewhere, 0) : found;
  }
};

LogProbabilities log_probabilities(const Pass& pass, at::Tensor logits, const at::Tensor& targets, const Range& rows) {
  LogProbabilities result;
  result.targets = targets.reshape({-1, 1});
  if (pass.tensor_group == nullptr) {
    result.values = at::log_softmax(logits, -1, at::kFloat);
    return result;
  }
  result.targets = result.targets.sub(rows.first);
  result.elsewhere = result.targets.lt(0).logical_or_(result.targets.ge(rows.count));
  result.targets.clamp_(0, rows.count - 1);
  logits = logits.to(at::kFloat);
  const at::Tensor most = logits.amax(-1, true);
  max_over(pass.tensor_group, most);
  logits.sub_(most);
  const at::Tensor total = logits.exp().sum(-1, true);
  sum_over(pass.tensor_group, total);
  result.values = logits.sub_(total.log_());
  return result;
}

struct HeadLossNode : torch::autograd::Node {
  at::Tensor input;  // as rows
  std::vector<std::int64_t> shape;
  LogProbabilities log;
  HeadParameters parameters;
  double scale = 0;
  Group* group = nullptr;
  PutOffs* gradients = nullptr;

  // d loss / d logits = softmax - onehot. It is computed in the memory of the log-probabilities.
  // The scale multiplies the products, because they are smaller.
  variable_list apply(variable_list&&) override {
    at::Tensor logits = log.values.exp_();
    const at::Tensor minus_one = log.elsewhere.defined()
                                     ? log.elsewhere.to(at::kFloat).sub_(1)
                                     : at::full({1, 1}, -1.0, logits.options()).expand(log.targets.sizes());
    logits.scatter_add_(1, log.targets, minus_one);
    logits = logits.to(input.scalar_type());
    at::Tensor flowing = at::mm(logits, parameters.weight.value);
    sum_over(group, flowing);
    flowing.mul_(scale);
    gradients->push_back({PutOff::Kind::product, parameters.weight.index, logits, input, scale});
    return {flowing.view(shape)};
  }
  void release_variables() override {
    input.reset();
    log = {};
  }
  std::string name() const override { return "HeadLoss"; }
};

}  // namespace

at::Tensor head_loss(const Pass& pass, const at::Tensor& input, const at::Tensor& targets,
                     const HeadParameters& parameters, double scale) {
  at::Tensor loss, rows;
  LogProbabilities log;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    rows = input.reshape({-1, input.size(-1)});
    log = log_probabilities(pass, at::mm(rows, parameters.weight.value.t()), targets, parameters.rows);
    at::Tensor found = log.of_targets();
    sum_over(pass.tensor_group, found);
    loss = at::sum(found, at::kDouble).neg_();
  }
  if (pass.gradients == nullptr) return loss;
  const auto node = make_node<HeadLossNode>(input);
  node->input = rows;
  node->shape = input.sizes().vec();
  node->log = log;
  node->parameters = parameters;
  node->scale = scale;
  node->group = pass.tensor_group;
  node->gradients = pass.gradients;
  torch::autograd::set_history(loss, node);
  return loss;
}

}  // namespace espalier::torchrt
