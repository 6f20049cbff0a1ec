#include "torchrt/model/block.hpp"

#include "torchrt/model/layers/attention.hpp"
#include "torchrt/model/layers/feed_forward.hpp"

namespace espalier::torchrt {

namespace {

at::Tensor attend(const Pass& pass, const at::Tensor& input, const BlockParameters& parameters,
                  const std::optional<RotaryTables>& rotary) {
  const std::int64_t samples = input.size(0), sequence = input.size(1), size = pass.model.head_size;
  const std::vector<at::Tensor> joint = linear_by_rows(pass, input, parameters.query_key_value);
  if (joint.size() == 1) {
    const std::vector<at::Tensor> parts = joint[0].view({samples, sequence, 3, -1, size}).unbind(2);
    return attention(pass, parts[0], parts[1], parts[2]);
  }
  const auto heads = [&](const at::Tensor& tensor) { return tensor.view({samples, sequence, -1, size}); };
  const at::Tensor query = rotate(pass, heads(joint[0]), *rotary), key = rotate(pass, heads(joint[1]), *rotary);
  return attention(pass, query, key, heads(joint[2]));
}

// Adds in place: nothing else uses the linear layer's output, and no autograd node here keeps it.
at::Tensor add_residual(at::Tensor output, const at::Tensor& residual) { return output.add_(residual); }

}  // namespace

BlockParameters block_parameters(const Family& family, const FindParameter& find) {
  const auto norm = [&](const std::string& name) {
    return NormParameters{find(name + ".weight"), find(name + ".bias")};
  };
  const auto linear = [&](const std::string& name) {
    return LinearParameters{find(name + ".weight"), find(name + ".bias")};
  };
  BlockParameters parameters;
  parameters.attention_norm = norm(family.attention_norm);
  parameters.feed_forward_norm = norm(family.feed_forward_norm);
  if (family.fused != nullptr) parameters.query_key_value = {linear(family.fused)};
  else parameters.query_key_value = {linear(family.query), linear(family.key), linear(family.value)};
  parameters.attention_output = linear(family.attention_output);
  if (family.gate != nullptr) parameters.up = {linear(family.gate), linear(family.up)};
  else parameters.up = {linear(family.up)};
  parameters.down = linear(family.down);
  return parameters;
}

at::Tensor block(const Pass& pass, const at::Tensor& input, const BlockParameters& parameters,
                 const std::optional<RotaryTables>& rotary) {
  const double probability = pass.model.residual_dropout;
  const at::Tensor mixed = attend(pass, norm(pass, input, parameters.attention_norm), parameters, rotary);
  const at::Tensor middle = add_residual(dropout(pass, linear_by_columns(pass, mixed, parameters.attention_output),
                                                 DropoutPlace::after_attention, probability),
                                         input);
  const std::vector<at::Tensor> up =
      linear_by_rows(pass, norm(pass, middle, parameters.feed_forward_norm), parameters.up);
  const at::Tensor wide = up.size() == 1 ? activate(pass, up[0]) : gated(pass, up[0], up[1]);
  return add_residual(
      dropout(pass, linear_by_columns(pass, wide, parameters.down), DropoutPlace::after_feed_forward, probability),
      middle);
}

}  // namespace espalier::torchrt
