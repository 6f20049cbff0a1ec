#include "torchrt/model/compute.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/model/flow.hpp"
#include "torchrt/model/host_memory.hpp"
#include "torchrt/model/mapped_tensor.hpp"
#include "torchrt/model/squared_sum.hpp"
#include "torchrt/model/tensor_device.hpp"
#include "torchrt/model/torch_errors.hpp"
#include "torchrt/model/unit.hpp"
#include "torchrt/random.hpp"

namespace espalier::torchrt {

namespace {

// One unit's run over the samples of one pass.
struct UnitGraph {
  Flow inputs;
  at::Tensor output;
  std::unique_ptr<PutOffs> gradients = std::make_unique<PutOffs>();
};

// Samples that go forward together: all of the rank's samples; bitwise: one sample.
struct SampleGroup {
  int first = 0, count = 0;
  std::vector<UnitGraph> graphs;  // by unit of the chunk
  Flow flowing;                   // gradients of what flows behind the next unit in backward
};

// A micro-batch in one chunk.
struct MicroBatch {
  std::uint64_t first_sample = 0;
  at::Tensor tokens, targets;
  // Of all samples; backends use their memory too.
  at::Tensor input, output, output_gradient, input_gradient;
  std::vector<SampleGroup> groups;
};

}  // namespace

struct Compute::State {
  const Device* device = nullptr;
  UnitContext context;
  Layout whole;
  RankLayout layout;
  Group* tensor_group = nullptr;
  std::vector<std::unique_ptr<Unit>> units;
  std::map<std::pair<int, int>, MicroBatch> micro_batches;  // by chunk and number
  std::pair<int, int> sent{-1, -1};  // the last of them whose input's gradient goes to another rank
  at::Tensor losses;  // float64, on the device, in units of 2^-20: the model's own, then each MTP depth's
  std::uint64_t step_seed = 0;
  bool evaluating = false;

  std::size_t index(int unit) const {
    const auto found = std::lower_bound(layout.units.begin(), layout.units.end(), unit);
    ESPALIER_INVARIANT(found != layout.units.end() && *found == unit);
    return static_cast<std::size_t>(found - layout.units.begin());
  }
  Unit& unit(int number) { return *units[index(number)]; }
  const Unit& unit(int number) const { return *units[index(number)]; }

  const ChunkLayout& chunk(int number) const {
    const ChunkLayout& found = whole.chunks.at(static_cast<std::size_t>(number));
    ESPALIER_INVARIANT(found.stage == layout.stage);
    return found;
  }
  bool is_first(int chunk) const { return chunk == 0; }
  bool is_last(int chunk) const { return static_cast<std::size_t>(chunk) + 1 == whole.chunks.size(); }
  // True when `neighbour` exists and is on this rank.
  bool is_here(int neighbour) const {
    return neighbour >= 0 && static_cast<std::size_t>(neighbour) < whole.chunks.size() &&
           whole.chunks[static_cast<std::size_t>(neighbour)].stage == layout.stage;
  }

  FlowRules rules() const { return {context.model, !evaluating}; }

  // Of what flows behind `unit`.
  std::vector<std::int64_t> activation_shape(int unit) const {
    return {layout.samples, rules().tokens(unit), context.model.hidden};
  }

  // Samples [first, first + count) of an activation behind `unit`; makes it on first use.
  Buffer part(at::Tensor& activation, int unit, int first, int count) const {
    if (!activation.defined()) activation = at::empty(activation_shape(unit), context.options);
    return buffer_of(activation.narrow(0, first, count));
  }
  Slice slice(const at::Tensor& activation, int first, int count) const {
    return {buffer_of(activation.narrow(0, first, count)), std::make_shared<at::Tensor>(activation)};
  }

  // On GPUs the copy goes through pinned memory, so nothing waits for the device.
  at::Tensor token_tensor(const std::vector<std::int64_t>& values) const {
    ESPALIER_INVARIANT(values.size() ==
                       static_cast<std::size_t>(layout.samples) * static_cast<std::size_t>(context.model.sequence));
    const bool cuda = context.options.device().is_cuda();
    const at::Tensor host =
        at::empty({layout.samples, context.model.sequence}, at::TensorOptions().dtype(at::kLong).pinned_memory(cuda));
    std::memcpy(host.mutable_data_ptr<std::int64_t>(), values.data(), values.size() * sizeof(std::int64_t));
    return cuda ? host.to(context.options.device(), at::kLong, true) : host;
  }

  Pass pass(const Unit& unit, const MicroBatch& micro, const SampleGroup& group, PutOffs* gradients) const {
    const UnitSpec& spec = unit.spec();
    return {context.model, tensor_group, spec.tp,   spec.tp_rank,
            gradients,     !evaluating,  step_seed, micro.first_sample + static_cast<std::uint64_t>(group.first),
            spec.unit};
  }

  at::Tensor run(const Unit& unit, const MicroBatch& micro, const SampleGroup& group, const Flow& inputs,
                 PutOffs* gradients) const {
    const auto mine = [&](const at::Tensor& tokens) {
      return tokens.defined() ? tokens.narrow(0, group.first, group.count) : tokens;
    };
    const at::AutoGradMode grad_mode(gradients != nullptr);
    return unit.run(pass(unit, micro, group, gradients), inputs, mine(micro.tokens), mine(micro.targets));
  }

  bool recomputed(const Unit& unit) const {
    const UnitPart part = unit_part(context.model, unit.number());
    return context.training.recompute && (part == UnitPart::block || part == UnitPart::mtp);
  }

  void forward(int number, MicroBatch& micro, SampleGroup& group) {
    const ChunkLayout& place = chunk(number);
    const FlowRules flows = rules();
    Flow flow;
    if (!is_first(number))
      flow = parted(micro.input.narrow(0, group.first, group.count), flows.lengths(place.first_unit - 1));
    for (int i = 0; i < place.units; ++i) {
      if (flows.skips(place.first_unit + i)) continue;
      const Unit& one = unit(place.first_unit + i);
      UnitGraph graph;
      for (const at::Tensor& input : flows.inputs(one.number(), flow)) {
        graph.inputs.push_back(input.detach());
        graph.inputs.back().set_requires_grad(!evaluating);
      }
      PutOffs* const gradients = evaluating || recomputed(one) ? nullptr : graph.gradients.get();
      graph.output = run(one, micro, group, graph.inputs, gradients);
      flow = flows.after(one.number(), std::move(flow), graph.output.detach());
      if (recomputed(one)) graph.output.reset();
      if (!evaluating) group.graphs.push_back(std::move(graph));
    }
    if (is_last(number)) {
      const at::Tensor found = flow.front().view({-1}).mul_(kLossUnit);
      losses.narrow(0, 0, found.size(0)).add_(context.bitwise ? found.round_() : found);
    } else {
      keep(micro.output, place.last_unit(), group, flow);
    }
  }

  // Evaluation has no backward pass that would free a chunk's outputs. Those of earlier micro-batches have been sent,
  // and what still sends them keeps them. Where the next chunk is on this rank, nothing is sent: that chunk takes the
  // outputs, and a schedule may let it do so later.
  void forget_sent(int number, int micro_batch) {
    if (is_here(number + 1)) return;
    for (auto at = micro_batches.lower_bound({number, 0}); at != micro_batches.end() && at->first.first == number; ++at)
      if (at->first.second != micro_batch) at->second.output.reset();
  }

  // The gradient of an input that comes from another rank is sent before anything else is computed, and what sends it
  // keeps it. Where the chunk before is on this rank, nothing is sent: that chunk takes the gradient, and a schedule
  // may let it do so later.
  void forget_sent_gradient() {
    const auto found = micro_batches.find(std::exchange(sent, {-1, -1}));
    if (found != micro_batches.end()) found->second.input_gradient.reset();
  }

  // Copies the group's part of what flows behind `unit` into `all`. If there is only one group, `all` becomes the part
  // itself.
  void keep(at::Tensor& all, int unit, const SampleGroup& group, const Flow& flow) const {
    const at::Tensor part = joined(flow);
    if (group.count == layout.samples) {
      all = part.contiguous();
      return;
    }
    if (!all.defined()) all = at::empty(activation_shape(unit), context.options);
    all.narrow(0, group.first, group.count).copy_(part);
  }

  // Runs the unit backward for all these groups in one call of autograd. On a GPU autograd works in a thread of its
  // own, and each call waits for that thread.
  void backward(int number, MicroBatch& micro, std::span<SampleGroup> groups, int unit_number) const {
    const ChunkLayout& place = chunk(number);
    const Unit& one = unit(unit_number);
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
};

Compute::Compute(const Config& config, const Layout& layout, int rank, const Device& device, Group* tensor_group,
                 std::vector<UnitView> units)
    : state_(std::make_unique<State>()) {
  UnitContext& context = state_->context;
  context.model = config.model;
  context.training = config.training;
  context.bitwise = config.training.accuracy == Accuracy::bitwise;
  context.options = at::TensorOptions().dtype(config.training.dtype == DataType::bfloat16 ? at::kBFloat16 : at::kFloat);
  context.options = context.options.device(tensor_device(device));
  state_->device = &device;
  context.loss_scale = 1.0 / (static_cast<double>(config.training.global_batch) * config.model.sequence);
  context.scratch = std::make_shared<at::Tensor>();
  state_->whole = layout;
  state_->layout = layout.ranks[static_cast<std::size_t>(rank)];
  ESPALIER_INVARIANT(units.size() == state_->layout.units.size());
  state_->tensor_group = tensor_group != nullptr && tensor_group->size() > 1 ? tensor_group : nullptr;
  guarded(*state_->device, "preparing parameters", [&] {
    // On a GPU torch's fused attention sums in any order when it may merely warn, so there it must
    // throw.
    at::globalContext().setDeterministicAlgorithms(context.bitwise, device.kind() != DeviceKind::cuda);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    if (family(config.model.family).positions == nullptr) context.rotary = rotary_tables(config.model, context.options);
    state_->losses = at::zeros({1 + config.model.mtp_layers}, context.options.dtype(at::kDouble));
    for (const UnitView& unit : units) {
      ESPALIER_INVARIANT(unit.state.dtype == config.training.dtype);
      ESPALIER_INVARIANT(unit.spec->tp == (tensor_group != nullptr ? tensor_group->size() : 1));
      state_->units.push_back(std::make_unique<Unit>(context, unit));
    }
  });
}

Compute::~Compute() = default;

void Compute::rebind(const UnitView& unit) {
  guarded(*state_->device, "preparing parameters", [&] { state_->unit(unit.spec->unit).rebind(unit); });
}

void Compute::begin_step(std::int64_t step) {
  guarded(*state_->device, "beginning a step", [&] {
    state_->micro_batches.clear();
    state_->losses.zero_();
    state_->evaluating = false;
    state_->step_seed = mix(state_->context.training.seed, static_cast<std::uint64_t>(step));
    for (const std::unique_ptr<Unit>& unit : state_->units) unit->begin_step();
  });
}

void Compute::begin_evaluation() {
  begin_step(0);
  state_->evaluating = true;
}

Buffer Compute::input(int chunk, int micro_batch, int first, int count) {
  return guarded(*state_->device, "making room for activations", [&] {
    return state_->part(state_->micro_batches[{chunk, micro_batch}].input, state_->chunk(chunk).first_unit - 1, first,
                        count);
  });
}

void Compute::forward(int chunk, int micro_batch, std::uint64_t first_sample, const Batch& batch) {
  guarded(*state_->device, "forward", [&] {
    state_->forget_sent_gradient();
    MicroBatch& micro = state_->micro_batches[{chunk, micro_batch}];
    micro.first_sample = first_sample;
    if (state_->is_first(chunk)) micro.tokens = state_->token_tensor(batch.tokens);
    if (state_->is_last(chunk)) micro.targets = state_->token_tensor(batch.targets);
    if (state_->is_here(chunk - 1))
      micro.input = std::exchange(state_->micro_batches.at({chunk - 1, micro_batch}).output, at::Tensor());
    const int samples = state_->layout.samples, together = state_->context.bitwise ? 1 : samples;
    for (int first = 0; first < samples; first += together) {
      SampleGroup& group = micro.groups.emplace_back();
      group.first = first;
      group.count = together;
      state_->forward(chunk, micro, group);
    }
    // The graphs keep what they need. Only units that get no tokens and no targets are computed again.
    micro.input.reset();
    micro.tokens.reset();
    micro.targets.reset();
    if (state_->evaluating) state_->forget_sent(chunk, micro_batch);
  });
}

Slice Compute::output(int chunk, int micro_batch, int first, int count) {
  return state_->slice(state_->micro_batches.at({chunk, micro_batch}).output, first, count);
}

Buffer Compute::output_gradient(int chunk, int micro_batch, int first, int count) {
  return guarded(*state_->device, "making room for gradients", [&] {
    return state_->part(state_->micro_batches[{chunk, micro_batch}].output_gradient, state_->chunk(chunk).last_unit(),
                        first, count);
  });
}

void Compute::backward(int micro_batch, int unit) {
  guarded(*state_->device, "backward", [&] {
    state_->forget_sent_gradient();
    const int chunk = state_->whole.chunk_of_unit(unit);
    const bool begins = unit == state_->chunk(chunk).last_unit(), ends = unit == state_->chunk(chunk).first_unit;
    MicroBatch& micro = state_->micro_batches.at({chunk, micro_batch});
    if (begins && state_->is_here(chunk + 1))
      micro.output_gradient =
          std::exchange(state_->micro_batches.at({chunk + 1, micro_batch}).input_gradient, at::Tensor());
    // A unit that computes its activations again does so for one group after the other, and keeps those of one.
    const std::size_t together = state_->recomputed(state_->unit(unit)) ? 1 : micro.groups.size();
    const std::span<SampleGroup> groups(micro.groups);
    for (std::size_t first = 0; first < groups.size(); first += together)
      state_->backward(chunk, micro, groups.subspan(first, together), unit);
    if (begins) {
      micro.output.reset();
      micro.output_gradient.reset();
    }
    if (ends && !state_->is_here(chunk - 1)) state_->sent = {chunk, micro_batch};
  });
}

void Compute::weight_gradient(int micro_batch, int unit) {
  guarded(*state_->device, "weight gradients", [&] {
    const at::NoGradGuard no_grad;
    state_->forget_sent_gradient();
    const int chunk = state_->whole.chunk_of_unit(unit);
    const auto place = static_cast<std::size_t>(unit - state_->chunk(chunk).first_unit);
    std::vector<PutOffs*> runs;
    for (SampleGroup& group : state_->micro_batches.at({chunk, micro_batch}).groups)
      runs.push_back(group.graphs[place].gradients.get());
    state_->unit(unit).gradients().add(runs);
  });
}

Slice Compute::input_gradient(int chunk, int micro_batch, int first, int count) {
  return state_->slice(state_->micro_batches.at({chunk, micro_batch}).input_gradient, first, count);
}

double Compute::loss_sum() {
  const bool counts = state_->layout.has_head && state_->units.back()->spec().tp_rank == 0;
  return guarded(*state_->device, "loss", [&] { return counts ? state_->losses[0].item<double>() : 0.0; });
}

double Compute::ahead_loss_sum() {
  const int depths = state_->context.model.mtp_layers;
  const bool counts = depths > 0 && state_->layout.has_head && state_->units.back()->spec().tp_rank == 0;
  return guarded(*state_->device, "loss",
                 [&] { return counts ? state_->losses.narrow(0, 1, depths).sum().item<double>() : 0.0; });
}

bool Compute::out_of_range() {
  if (!state_->context.bitwise) return false;
  return guarded(*state_->device, "gradients", [&] {
    std::vector<at::Tensor> flags;
    for (const std::unique_ptr<Unit>& unit : state_->units) flags.push_back(unit->gradients().out_of_range());
    return at::stack(flags).any().item<bool>();
  });
}

Buffer Compute::gradient(int unit) {
  return guarded(*state_->device, "gradients", [&] { return buffer_of(state_->unit(unit).gradients().sum()); });
}

void Compute::reduced(int unit) {
  guarded(*state_->device, "gradients", [&] { state_->unit(unit).gradients().finish(); });
}

Buffer Compute::tied_gradient(int unit, Range rows) {
  return guarded(*state_->device, "gradients", [&] { return buffer_of(state_->unit(unit).tied_gradient(rows)); });
}

void Compute::add_tied(int unit, Range rows, Buffer received) {
  guarded(*state_->device, "gradients", [&] {
    ESPALIER_INVARIANT(received.type == DataType::float32 &&
                       received.count == static_cast<std::size_t>(rows.count * state_->context.model.hidden));
    const at::Tensor values = mapped_tensor(received.data, {static_cast<std::int64_t>(received.count)},
                                            state_->context.options.dtype(at::kFloat));
    state_->unit(unit).add_tied(rows, values);
  });
}

std::vector<double> Compute::squared_norms(const std::vector<NormOf>& units) {
  return guarded(*state_->device, "gradient norm", [&] {
    std::vector<at::Tensor> parts;
    std::vector<std::size_t> ends;
    for (const NormOf& one : units) {
      for (at::Tensor& part : state_->unit(one.unit).counted(one.whole)) parts.push_back(std::move(part));
      ends.push_back(parts.size());
    }
    const std::vector<double> sums = squared_sums(parts);
    std::vector<double> norms(units.size(), 0.0);
    for (std::size_t i = 0, part = 0; i < units.size(); ++i)
      for (; part < ends[i]; ++part) norms[i] += sums[part];
    return norms;
  });
}

void Compute::update(int unit, std::int64_t step, double learning_rate, double scale) {
  guarded(*state_->device, "optimizer", [&] { state_->unit(unit).update(step, learning_rate, scale); });
}

Buffer Compute::parameters(int unit) { return buffer_of(state_->unit(unit).parameters()); }

std::size_t Compute::peak_bytes() const { return most_torch_memory(*state_->device); }
std::size_t Compute::peak_tensor_bytes() const { return most_tensor_memory(*state_->device); }

void Compute::release_memory() {
  guarded(*state_->device, "releasing memory", [&] {
    state_->micro_batches.clear();
    state_->context.scratch->reset();  // the next step makes it again
    for (const std::unique_ptr<Unit>& unit : state_->units) unit->forget_tied();
    release_torch_memory(*state_->device);
  });
}

void Compute::reset_peak() { reset_most_torch_memory(*state_->device); }

void release_kept_memory(const Device& device) {
  guarded(device, "releasing memory", [&] { release_torch_memory(device); });
}

}  // namespace espalier::torchrt
