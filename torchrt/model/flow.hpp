// What flows between units. Without multi-token prediction it is one tensor, the state. With MTP modules the embeddings
// of the tokens go along beside the state, up to the last module, and each module adds the state of its depth; the head
// takes all states. So the table of the embedding and the matrix of the head exist once, wherever a module stands.
// Includes torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// Tensors [samples, tokens, hidden]: the model's state; the state of each depth so far, which is one token shorter per
// depth; before the last module also the embeddings.
using Flow = std::vector<at::Tensor>;

class FlowRules {
 public:
  // `ahead`: the MTP modules compute. Without it they pass the state on.
  FlowRules(const ModelConfig& model, bool ahead) : model_(model), ahead_(ahead && model.mtp_layers > 0) {}
  bool skips(int unit) const { return !ahead_ && unit_part(model_, unit) == UnitPart::mtp; }
  // Tokens of each tensor behind `unit`, and of all together. Not for the head.
  std::vector<std::int64_t> lengths(int unit) const;
  std::int64_t tokens(int unit) const;
  // Forward: what the unit computes on, and what flows behind it.
  Flow inputs(int unit, const Flow& before) const;
  Flow after(int unit, Flow before, const at::Tensor& output) const;
  // Backward: the gradient of the unit's output (undefined: of a scalar), and what flows to the unit before, from the
  // gradients of inputs(). Sums are out of place: others may hold the tensors.
  at::Tensor output_gradient(int unit, const Flow& after) const;
  Flow before(int unit, Flow after, const Flow& input_gradients) const;

 private:
  const ModelConfig& model_;
  bool ahead_;
};

// One tensor [samples, all tokens, hidden] and its parts. A single tensor stays as it is.
at::Tensor joined(const Flow& flow);
Flow parted(const at::Tensor& tensor, const std::vector<std::int64_t>& lengths);

}  // namespace espalier::torchrt
