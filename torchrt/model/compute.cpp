#include "torchrt/model/compute.hpp"

#include <ATen/Context.h>
#include <ATen/ops/stack.h>

#include <optional>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/model/mapped_tensor.hpp"
#include "torchrt/model/micro_batches.hpp"
#include "torchrt/model/rank_units.hpp"
#include "torchrt/model/squared_sum.hpp"
#include "torchrt/model/tensor_device.hpp"
#include "torchrt/model/torch_errors.hpp"
#include "torchrt/random.hpp"

namespace espalier::torchrt {

struct Compute::State {
  const Device* device = nullptr;
  UnitContext context;
  RankUnits units;
  std::optional<MicroBatches> micro_batches;  // refers to context and units

  void begin(std::int64_t step, bool evaluating) {
    guarded(*device, "beginning a step", [&] {
      micro_batches->begin(mix(context.training.seed, static_cast<std::uint64_t>(step)), evaluating);
      for (const std::unique_ptr<Unit>& unit : units) unit->begin_step();
    });
  }
  bool counts_losses() const { return micro_batches->self().has_head && units.last().spec().tp_rank == 0; }
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
  ESPALIER_INVARIANT(units.size() == layout.ranks[static_cast<std::size_t>(rank)].units.size());
  guarded(*state_->device, "preparing parameters", [&] {
    // On a GPU torch's fused attention sums in any order when it may merely warn, so there it must
    // throw.
    at::globalContext().setDeterministicAlgorithms(context.bitwise, device.kind() != DeviceKind::cuda);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    if (family(config.model.family).positions == nullptr) context.rotary = rotary_tables(config.model, context.options);
    state_->micro_batches.emplace(context, state_->units, layout, rank, tensor_group);
    for (const UnitView& unit : units) {
      ESPALIER_INVARIANT(unit.state.dtype == config.training.dtype);
      ESPALIER_INVARIANT(unit.spec->tp == (tensor_group != nullptr ? tensor_group->size() : 1));
      state_->units.add(std::make_unique<Unit>(context, unit));
    }
  });
}

Compute::~Compute() = default;

void Compute::rebind(const UnitView& unit) {
  guarded(*state_->device, "preparing parameters", [&] { state_->units.at(unit.spec->unit).rebind(unit); });
}

void Compute::begin_step(std::int64_t step) { state_->begin(step, false); }

void Compute::begin_evaluation() { state_->begin(0, true); }

Buffer Compute::input(int chunk, int micro_batch, int first, int count) {
  return guarded(*state_->device, "making room for activations",
                 [&] { return state_->micro_batches->input(chunk, micro_batch, first, count); });
}

void Compute::forward(int chunk, int micro_batch, std::uint64_t first_sample, const Batch& batch) {
  guarded(*state_->device, "forward", [&] { state_->micro_batches->forward(chunk, micro_batch, first_sample, batch); });
}

Slice Compute::output(int chunk, int micro_batch, int first, int count) {
  return state_->micro_batches->output(chunk, micro_batch, first, count);
}

Buffer Compute::output_gradient(int chunk, int micro_batch, int first, int count) {
  return guarded(*state_->device, "making room for gradients",
                 [&] { return state_->micro_batches->output_gradient(chunk, micro_batch, first, count); });
}

void Compute::backward(int micro_batch, int unit) {
  guarded(*state_->device, "backward", [&] { state_->micro_batches->backward(micro_batch, unit); });
}

void Compute::weight_gradient(int micro_batch, int unit) {
  guarded(*state_->device, "weight gradients", [&] { state_->micro_batches->weight_gradient(micro_batch, unit); });
}

Slice Compute::input_gradient(int chunk, int micro_batch, int first, int count) {
  return state_->micro_batches->input_gradient(chunk, micro_batch, first, count);
}

double Compute::loss_sum() {
  const bool counts = state_->counts_losses();
  return guarded(*state_->device, "loss",
                 [&] { return counts ? state_->micro_batches->losses()[0].item<double>() : 0.0; });
}

double Compute::ahead_loss_sum() {
  const int depths = state_->context.model.mtp_layers;
  const bool counts = depths > 0 && state_->counts_losses();
  return guarded(*state_->device, "loss", [&] {
    return counts ? state_->micro_batches->losses().narrow(0, 1, depths).sum().item<double>() : 0.0;
  });
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
  return guarded(*state_->device, "gradients", [&] { return buffer_of(state_->units.at(unit).gradients().sum()); });
}

void Compute::reduced(int unit) {
  guarded(*state_->device, "gradients", [&] { state_->units.at(unit).gradients().finish(); });
}

Buffer Compute::tied_gradient(int unit, Range rows) {
  return guarded(*state_->device, "gradients", [&] { return buffer_of(state_->units.at(unit).tied_gradient(rows)); });
}

void Compute::add_tied(int unit, Range rows, Buffer received) {
  guarded(*state_->device, "gradients", [&] {
    ESPALIER_INVARIANT(received.type == DataType::float32 &&
                       received.count == static_cast<std::size_t>(rows.count * state_->context.model.hidden));
    const at::Tensor values = mapped_tensor(received.data, {static_cast<std::int64_t>(received.count)},
                                            state_->context.options.dtype(at::kFloat));
    state_->units.at(unit).add_tied(rows, values);
  });
}

std::vector<double> Compute::squared_norms(const std::vector<NormOf>& units) {
  return guarded(*state_->device, "gradient norm", [&] {
    std::vector<at::Tensor> parts;
    std::vector<std::size_t> ends;
    for (const NormOf& one : units) {
      for (at::Tensor& part : state_->units.at(one.unit).counted(one.whole)) parts.push_back(std::move(part));
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
  guarded(*state_->device, "optimizer", [&] { state_->units.at(unit).update(step, learning_rate, scale); });
}

Buffer Compute::parameters(int unit) { return buffer_of(state_->units.at(unit).parameters()); }

std::size_t Compute::peak_bytes() const { return most_torch_memory(*state_->device); }
std::size_t Compute::peak_tensor_bytes() const { return most_tensor_memory(*state_->device); }

void Compute::release_memory() {
  guarded(*state_->device, "releasing memory", [&] {
    state_->micro_batches->clear();
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
