#include "torchrt/model/flow.hpp"

#include <ATen/ops/cat.h>

#include <numeric>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

std::vector<std::int64_t> FlowRules::lengths(int unit) const {
  const std::int64_t sequence = model_.sequence;
  if (!ahead_) return {sequence};
  const int depth = mtp_depth(model_, unit);
  std::vector<std::int64_t> list;
  for (int k = 0; k <= depth; ++k) list.push_back(sequence - k);
  if (depth < model_.mtp_layers) list.push_back(sequence);
  return list;
}

std::int64_t FlowRules::tokens(int unit) const {
  const std::vector<std::int64_t> list = lengths(unit);
  return std::accumulate(list.begin(), list.end(), std::int64_t{0});
}

Flow FlowRules::inputs(int unit, const Flow& before) const {
  switch (unit_part(model_, unit)) {
    case UnitPart::embedding:
      return {};
    case UnitPart::block:
      return {before.front()};
    case UnitPart::mtp:
      return {before[before.size() - 2], before.back()};
    case UnitPart::head:
      return before;
  }
  return {};
}

Flow FlowRules::after(int unit, Flow before, const at::Tensor& output) const {
  switch (unit_part(model_, unit)) {
    case UnitPart::embedding:
      return ahead_ ? Flow{output, output} : Flow{output};
    case UnitPart::block:
      before.front() = output;
      return before;
    case UnitPart::mtp:
      before.insert(before.end() - 1, output);
      if (mtp_depth(model_, unit) == model_.mtp_layers) before.pop_back();
      return before;
    case UnitPart::head:
      return {output};
  }
  return {};
}

at::Tensor FlowRules::output_gradient(int unit, const Flow& after) const {
  switch (unit_part(model_, unit)) {
    case UnitPart::embedding:
      return ahead_ ? after[0].add(after[1]) : after[0];
    case UnitPart::block:
      return after[0];
    case UnitPart::mtp:
      return after[static_cast<std::size_t>(mtp_depth(model_, unit))];
    case UnitPart::head:
      return {};
  }
  return {};
}

Flow FlowRules::before(int unit, Flow after, const Flow& input_gradients) const {
  switch (unit_part(model_, unit)) {
    case UnitPart::embedding:
      return {};
    case UnitPart::block:
      after.front() = input_gradients.front();
      return after;
    case UnitPart::mtp: {
      const auto depth = static_cast<std::size_t>(mtp_depth(model_, unit));
      const bool last = after.size() == depth + 1;  // the embeddings end here
      const at::Tensor embeddings = last ? input_gradients[1] : after.back().add(input_gradients[1]);
      after.resize(depth);
      after.back() = after.back().add(input_gradients[0]);
      after.push_back(embeddings);
      return after;
    }
    case UnitPart::head:
      return input_gradients;
  }
  return {};
}

at::Tensor joined(const Flow& flow) { return flow.size() == 1 ? flow.front() : at::cat(flow, 1); }

Flow parted(const at::Tensor& tensor, const std::vector<std::int64_t>& lengths) {
  if (lengths.size() == 1) return {tensor};
  Flow flow;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    flow.push_back(tensor.narrow(1, first, length).contiguous());
    first += length;
  }
  ESPALIER_INVARIANT(first == tensor.size(1));
  return flow;
}

}  // namespace espalier::torchrt
