#include "torchrt/model/compute.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <cstdlib>

#include "planner/core/error.hpp"
#include "torchrt/model/gpt.hpp"

namespace espalier::torchrt {

namespace {

// Both halves of a unit's tensors, as flat tensors for the fused update.
struct Half {
  at::Tensor parameters, gradient, first_moment, second_moment;
  double weight_decay = 0;
};

struct Unit {
  const UnitSpec* spec = nullptr;
  TensorMap tensors;
  at::Tensor gradient;       // flat, on the device
  at::Tensor host_gradient;  // the same memory on CPU
  std::vector<Half> halves;
};

struct UnitGraph {
  at::Tensor input, output;
};

struct MicroBatch {
  std::vector<UnitGraph> graphs;
  at::Tensor output, input_gradient;  // on the host
};

std::span<const float> view(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// What torch throws is not ours to let through: callers know Error.
template <class Function>
auto guarded(const char* what, Function&& function) {
  try {
    return function();
  } catch (const c10::Error& error) {
    throw Error(std::string("model: ") + what + " failed: " + error.what_without_backtrace());
  }
}

}  // namespace

struct Compute::State {
  ModelConfig model;
  TrainingConfig training;
  RankLayout layout;
  at::TensorOptions options = at::TensorOptions().dtype(at::kFloat);
  std::vector<Unit> units;
  std::map<int, MicroBatch> micro_batches;
  double loss_sum = 0;
  double loss_scale = 0;  // the loss is the mean over all tokens of the step

  Unit& unit(int number) {
    const std::size_t index = static_cast<std::size_t>(number - layout.units.front());
    ESPALIER_INVARIANT(index < units.size());
    return units[index];
  }

  at::Tensor from_host(std::span<const float> values) const {
    const std::int64_t count = static_cast<std::int64_t>(values.size());
    const std::int64_t tokens = std::int64_t{model.sequence} * model.hidden;
    ESPALIER_INVARIANT(count == layout.samples * tokens);
    return at::from_blob(const_cast<float*>(values.data()), {layout.samples, model.sequence, model.hidden},
                         at::TensorOptions().dtype(at::kFloat))
        .to(options.device(), at::kFloat, false, true);
  }

  at::Tensor from_host(const std::vector<std::int64_t>& values) const {
    ESPALIER_INVARIANT(static_cast<std::int64_t>(values.size()) == std::int64_t{layout.samples} * model.sequence);
    return at::from_blob(const_cast<std::int64_t*>(values.data()), {layout.samples, model.sequence},
                         at::TensorOptions().dtype(at::kLong))
        .to(options.device(), at::kLong, false, true);
  }

  Unit make_unit(const UnitView& view_of) const {
    Unit made;
    made.spec = view_of.spec;
    const UnitSpec& spec = *made.spec;
    const auto flat = [&](float* start, std::size_t count) {
      return at::from_blob(start, {static_cast<std::int64_t>(count)}, options);
    };
    made.gradient = at::zeros({static_cast<std::int64_t>(spec.floats)}, options);
    for (const TensorSpec& tensor : spec.tensors) {
      at::Tensor parameter = at::from_blob(view_of.parameters + tensor.offset, tensor.shape, options);
      parameter.set_requires_grad(true);
      parameter.mutable_grad() =
          made.gradient
              .narrow(0, static_cast<std::int64_t>(tensor.offset), static_cast<std::int64_t>(tensor.elements()))
              .view(tensor.shape);
      made.tensors.emplace(tensor.name, std::move(parameter));
    }
    const auto add_half = [&](std::size_t first, std::size_t count, double weight_decay) {
      if (count == 0) return;
      made.halves.push_back(
          {flat(view_of.parameters + first, count),
           made.gradient.narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)),
           flat(view_of.first_moment + first, count), flat(view_of.second_moment + first, count), weight_decay});
    };
    add_half(0, spec.decay_floats, training.weight_decay);
    add_half(spec.decay_floats, spec.floats - spec.decay_floats, 0);
    return made;
  }

  at::Tensor run(const Unit& current, const at::Tensor& input, const Batch& batch) const {
    if (current.spec->unit == 0) return embed(current.tensors, from_host(batch.tokens));
    if (current.spec->unit <= model.layers) return block(current.tensors, model, input);
    return head_loss(current.tensors, model, input, from_host(batch.targets));
  }
};

void prepare_torch() {
  // MKL otherwise chooses kernels by the alignment of its operands, and losses would depend on addresses.
  ::setenv("MKL_CBWR", "AUTO,STRICT", 0);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // cuBLAS: the same result every time
  at::set_num_threads(1);
  at::set_num_interop_threads(1);
  at::globalContext().setDeterministicAlgorithms(true, true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

Compute::Compute(const Config& config, const RankLayout& layout, const Device& device, std::vector<UnitView> units)
    : state_(std::make_unique<State>()) {
  state_->model = config.model;
  state_->training = config.training;
  state_->layout = layout;
  if (device.kind() == DeviceKind::cuda)
    state_->options = state_->options.device(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index())));
  state_->loss_scale = 1.0 / (static_cast<double>(config.training.global_batch) * config.model.sequence);
  guarded("preparing parameters", [&] {
    for (const UnitView& unit : units) state_->units.push_back(state_->make_unit(unit));
  });
}

Compute::~Compute() = default;

void Compute::rebind(const UnitView& unit) {
  guarded("preparing parameters", [&] { state_->unit(unit.spec->unit) = state_->make_unit(unit); });
}

void Compute::begin_step() {
  state_->micro_batches.clear();
  state_->loss_sum = 0;
  for (Unit& unit : state_->units) unit.gradient.zero_();
}

void Compute::forward(int micro_batch, const Batch& batch, std::span<const float> input) {
  guarded("forward", [&] {
    MicroBatch& micro = state_->micro_batches[micro_batch];
    at::Tensor activation;
    if (!state_->layout.first_stage) activation = state_->from_host(input);
    for (const Unit& unit : state_->units) {
      UnitGraph graph;
      if (activation.defined()) graph.input = activation.detach().set_requires_grad(true);
      graph.output = state_->run(unit, graph.input, batch);
      activation = graph.output;
      micro.graphs.push_back(std::move(graph));
    }
    if (state_->layout.last_stage) state_->loss_sum += activation.item<double>();
    else micro.output = activation.detach().to(at::kCPU).contiguous();
  });
}

std::span<const float> Compute::output(int micro_batch) { return view(state_->micro_batches.at(micro_batch).output); }

void Compute::backward(int micro_batch, std::span<const float> gradient) {
  guarded("backward", [&] {
    MicroBatch& micro = state_->micro_batches.at(micro_batch);
    at::Tensor flowing =
        state_->layout.last_stage ? at::full({}, state_->loss_scale, state_->options) : state_->from_host(gradient);
    for (; !micro.graphs.empty(); micro.graphs.pop_back()) {
      UnitGraph& graph = micro.graphs.back();
      graph.output.backward(flowing);
      if (graph.input.defined()) flowing = graph.input.grad();
    }
    if (!state_->layout.first_stage) micro.input_gradient = flowing.to(at::kCPU).contiguous();
  });
}

std::span<const float> Compute::input_gradient(int micro_batch) {
  return view(state_->micro_batches.at(micro_batch).input_gradient);
}

double Compute::loss_sum() const { return state_->loss_sum; }

std::span<float> Compute::gradient(int number) {
  Unit& unit = state_->unit(number);
  unit.host_gradient = unit.gradient.to(at::kCPU);
  return {unit.host_gradient.mutable_data_ptr<float>(), unit.spec->floats};
}

void Compute::reduced(int number) {
  Unit& unit = state_->unit(number);
  if (!unit.gradient.is_cpu()) unit.gradient.copy_(unit.host_gradient);
}

double Compute::squared_norm(int number) {
  return guarded("gradient norm", [&] {
    const double norm =
        at::linalg_vector_norm(state_->unit(number).gradient, 2, std::nullopt, false, at::kDouble).item<double>();
    return norm * norm;
  });
}

void Compute::update(int number, std::int64_t step, double learning_rate, double scale) {
  guarded("optimizer", [&] {
    const at::NoGradGuard no_grad;
    const TrainingConfig& training = state_->training;
    const at::Tensor steps = at::full({}, static_cast<double>(step), state_->options);
    Unit& unit = state_->unit(number);
    if (scale != 1.0) unit.gradient.mul_(scale);
    for (Half& half : unit.halves)
      at::_fused_adamw_({half.parameters}, {half.gradient}, {half.first_moment}, {half.second_moment}, {}, {steps},
                        learning_rate, training.beta1, training.beta2, half.weight_decay, training.epsilon, false,
                        false);
  });
}

}  // namespace espalier::torchrt
