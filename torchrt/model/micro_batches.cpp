#include "torchrt/model/micro_batches.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

MicroBatches::MicroBatches(const UnitContext& context, const RankUnits& units, const Layout& layout, int rank,
                           Group* tensor_group)
    : context_(context),
      units_(units),
      layout_(layout),
      self_(layout.ranks[static_cast<std::size_t>(rank)]),
      tensor_group_(tensor_group != nullptr && tensor_group->size() > 1 ? tensor_group : nullptr),
      losses_(at::zeros({1 + context.model.mtp_layers}, context.options.dtype(at::kDouble))) {}

void MicroBatches::begin(std::uint64_t seed, bool evaluating) {
  micro_batches_.clear();
  losses_.zero_();
  evaluating_ = evaluating;
  step_seed_ = seed;
}

const ChunkLayout& MicroBatches::chunk_layout(int number) const {
  const ChunkLayout& found = layout_.chunks.at(static_cast<std::size_t>(number));
  ESPALIER_INVARIANT(found.stage == self_.stage);
  return found;
}

// True when `neighbour` exists and is on this rank.
bool MicroBatches::is_here(int neighbour) const {
  return neighbour >= 0 && static_cast<std::size_t>(neighbour) < layout_.chunks.size() &&
         layout_.chunks[static_cast<std::size_t>(neighbour)].stage == self_.stage;
}

// Of what flows behind `unit`.
std::vector<std::int64_t> MicroBatches::activation_shape(int unit) const {
  return {self_.samples, rules().tokens(unit), context_.model.hidden};
}

// Samples [first, first + count) of an activation behind `unit`; makes it on first use.
Buffer MicroBatches::part(at::Tensor& activation, int unit, int first, int count) const {
  if (!activation.defined()) activation = at::empty(activation_shape(unit), context_.options);
  return buffer_of(activation.narrow(0, first, count));
}

Slice MicroBatches::slice(const at::Tensor& activation, int first, int count) const {
  return {buffer_of(activation.narrow(0, first, count)), std::make_shared<at::Tensor>(activation)};
}

// On GPUs the copy goes through pinned memory, so nothing waits for the device.
at::Tensor MicroBatches::token_tensor(const std::vector<std::int64_t>& values) const {
  ESPALIER_INVARIANT(values.size() ==
                     static_cast<std::size_t>(self_.samples) * static_cast<std::size_t>(context_.model.sequence));
  const bool cuda = context_.options.device().is_cuda();
  const at::Tensor host =
      at::empty({self_.samples, context_.model.sequence}, at::TensorOptions().dtype(at::kLong).pinned_memory(cuda));
  std::memcpy(host.mutable_data_ptr<std::int64_t>(), values.data(), values.size() * sizeof(std::int64_t));
  return cuda ? host.to(context_.options.device(), at::kLong, true) : host;
}

Pass MicroBatches::pass(const Unit& unit, const MicroBatch& micro, const SampleGroup& group, PutOffs* gradients) const {
  const UnitSpec& spec = unit.spec();
  return {context_.model, tensor_group_, spec.tp,    spec.tp_rank,
          gradients,      !evaluating_,  step_seed_, micro.first_sample + static_cast<std::uint64_t>(group.first),
          spec.unit};
}

at::Tensor MicroBatches::run(const Unit& unit, const MicroBatch& micro, const SampleGroup& group, const Flow& inputs,
                             PutOffs* gradients) const {
  const auto mine = [&](const at::Tensor& tokens) {
    return tokens.defined() ? tokens.narrow(0, group.first, group.count) : tokens;
  };
  const at::AutoGradMode grad_mode(gradients != nullptr);
  return unit.run(pass(unit, micro, group, gradients), inputs, mine(micro.tokens), mine(micro.targets));
}

bool MicroBatches::recomputed(const Unit& unit) const {
  const UnitPart part = unit_part(context_.model, unit.number());
  return context_.training.recompute && (part == UnitPart::block || part == UnitPart::mtp);
}

Buffer MicroBatches::input(int chunk, int micro_batch, int first, int count) {
  return part(micro_batches_[{chunk, micro_batch}].input, chunk_layout(chunk).first_unit - 1, first, count);
}

void MicroBatches::forward(int chunk, int micro_batch, std::uint64_t first_sample, const Batch& batch) {
  forget_sent_gradient();
  MicroBatch& micro = micro_batches_[{chunk, micro_batch}];
  micro.first_sample = first_sample;
  if (is_first(chunk)) micro.tokens = token_tensor(batch.tokens);
  if (is_last(chunk)) micro.targets = token_tensor(batch.targets);
  if (is_here(chunk - 1)) micro.input = std::exchange(micro_batches_.at({chunk - 1, micro_batch}).output, at::Tensor());
  const int samples = self_.samples, together = context_.bitwise ? 1 : samples;
  for (int first = 0; first < samples; first += together) {
    SampleGroup& group = micro.groups.emplace_back();
    group.first = first;
    group.count = together;
    forward(chunk, micro, group);
  }
  // The graphs keep what they need. Only units that get no tokens and no targets are computed again.
  micro.input.reset();
  micro.tokens.reset();
  micro.targets.reset();
  if (evaluating_) forget_sent(chunk, micro_batch);
}

void MicroBatches::forward(int number, MicroBatch& micro, SampleGroup& group) {
  const ChunkLayout& place = chunk_layout(number);
  const FlowRules flows = rules();
  Flow flow;
  if (!is_first(number))
    flow = parted(micro.input.narrow(0, group.first, group.count), flows.lengths(place.first_unit - 1));
  for (int i = 0; i < place.units; ++i) {
    if (flows.skips(place.first_unit + i)) continue;
    const Unit& one = units_.at(place.first_unit + i);
    UnitGraph graph;
    for (const at::Tensor& input : flows.inputs(one.number(), flow)) {
      graph.inputs.push_back(input.detach());
      graph.inputs.back().set_requires_grad(!evaluating_);
    }
    PutOffs* const gradients = evaluating_ || recomputed(one) ? nullptr : graph.gradients.get();
    graph.output = run(one, micro, group, graph.inputs, gradients);
    flow = flows.after(one.number(), std::move(flow), graph.output.detach());
    if (recomputed(one)) graph.output.reset();
    if (!evaluating_) group.graphs.push_back(std::move(graph));
  }
  if (is_last(number)) {
    const at::Tensor found = flow.front().view({-1}).mul_(Compute::kLossUnit);
    losses_.narrow(0, 0, found.size(0)).add_(context_.bitwise ? found.round_() : found);
  } else {
    keep(micro.output, place.last_unit(), group, flow);
  }
}

// Copies the group's part of what flows behind `unit` into `all`. If there is only one group, `all` becomes the part
// itself.
void MicroBatches::keep(at::Tensor& all, int unit, const SampleGroup& group, const Flow& flow) const {
  const at::Tensor part = joined(flow);
  if (group.count == self_.samples) {
    all = part.contiguous();
    return;
  }
  if (!all.defined()) all = at::empty(activation_shape(unit), context_.options);
  all.narrow(0, group.first, group.count).copy_(part);
}

Slice MicroBatches::output(int chunk, int micro_batch, int first, int count) const {
  return slice(micro_batches_.at({chunk, micro_batch}).output, first, count);
}

Buffer MicroBatches::output_gradient(int chunk, int micro_batch, int first, int count) {
  return part(micro_batches_[{chunk, micro_batch}].output_gradient, chunk_layout(chunk).last_unit(), first, count);
}

void MicroBatches::backward(int micro_batch, int unit) {
  forget_sent_gradient();
  const int chunk = layout_.chunk_of_unit(unit);
  const bool begins = unit == chunk_layout(chunk).last_unit(), ends = unit == chunk_layout(chunk).first_unit;
  MicroBatch& micro = micro_batches_.at({chunk, micro_batch});
  if (begins && is_here(chunk + 1))
    micro.output_gradient = std::exchange(micro_batches_.at({chunk + 1, micro_batch}).input_gradient, at::Tensor());
  // A unit that computes its activations again does so for one group after the other, and keeps those of one.
  const std::size_t together = recomputed(units_.at(unit)) ? 1 : micro.groups.size();
  const std::span<SampleGroup> groups(micro.groups);
  for (std::size_t first = 0; first < groups.size(); first += together)
    backward(chunk, micro, groups.subspan(first, together), unit);
  if (begins) {
    micro.output.reset();
    micro.output_gradient.reset();
  }
  if (ends && !is_here(chunk - 1)) sent_ = {chunk, micro_batch};
}

// Runs the unit backward for all these groups in one call of autograd. On a GPU autograd works in a thread of its
// own, and each call waits for that thread.
void MicroBatches::backward(int number, MicroBatch& micro, std::span<SampleGroup> groups, int unit_number) const {
  const ChunkLayout& place = chunk_layout(number);
  const Unit& one = units_.at(unit_number);
  const FlowRules flows = rules();
  const auto graph_of = [&](SampleGroup& group) -> UnitGraph& {
    return group.graphs[static_cast<std::size_t>(unit_number - place.first_unit)];
  };
  std::vector<at::Tensor> outputs, flowing;
  for (SampleGroup& group : groups) {
    UnitGraph& graph = graph_of(group);
    if (unit_number == place.last_unit() && !is_last(number))
      group.flowing = parted(micro.output_gradient.narrow(0, group.first, group.count), flows.lengths(unit_number));
    if (recomputed(one)) graph.output = run(one, micro, group, graph.inputs, graph.gradients.get());
    // Of several losses: the head does not look at the values.
    flowing.push_back(graph.output.dim() == 1 ? at::ones_like(graph.output)
                                              : flows.output_gradient(unit_number, group.flowing));
    outputs.push_back(std::move(graph.output));
  }
  torch::autograd::backward(outputs, flowing);
  outputs.clear();
  flowing.clear();
  for (SampleGroup& group : groups) {
    UnitGraph& graph = graph_of(group);
    Flow gradients;
    for (const at::Tensor& input : graph.inputs) gradients.push_back(input.grad());
    graph.inputs.clear();
    group.flowing = flows.before(unit_number, std::move(group.flowing), gradients);
    if (unit_number != place.first_unit) continue;
    if (!is_first(number)) keep(micro.input_gradient, unit_number - 1, group, group.flowing);
    group.flowing.clear();
  }
}

void MicroBatches::weight_gradient(int micro_batch, int unit) {
  const at::NoGradGuard no_grad;
  forget_sent_gradient();
  const int chunk = layout_.chunk_of_unit(unit);
  const auto place = static_cast<std::size_t>(unit - chunk_layout(chunk).first_unit);
  std::vector<PutOffs*> runs;
  for (SampleGroup& group : micro_batches_.at({chunk, micro_batch}).groups)
    runs.push_back(group.graphs[place].gradients.get());
  units_.at(unit).gradients().add(runs);
}

Slice MicroBatches::input_gradient(int chunk, int micro_batch, int first, int count) const {
  return slice(micro_batches_.at({chunk, micro_batch}).input_gradient, first, count);
}

// Evaluation has no backward pass that would free a chunk's outputs. Those of earlier micro-batches have been sent,
// and what still sends them keeps them. Where the next chunk is on this rank, nothing is sent: that chunk takes the
// outputs, and a schedule may let it do so later.
void MicroBatches::forget_sent(int number, int micro_batch) {
  if (is_here(number + 1)) return;
  for (auto at = micro_batches_.lower_bound({number, 0}); at != micro_batches_.end() && at->first.first == number; ++at)
    if (at->first.second != micro_batch) at->second.output.reset();
}

// The gradient of an input that comes from another rank is sent before anything else is computed, and what sends it
// keeps it. Where the chunk before is on this rank, nothing is sent: that chunk takes the gradient, and a schedule
// may let it do so later.
void MicroBatches::forget_sent_gradient() {
  const auto found = micro_batches_.find(std::exchange(sent_, {-1, -1}));
  if (found != micro_batches_.end()) found->second.input_gradient.reset();
}

}  // namespace espalier::torchrt
