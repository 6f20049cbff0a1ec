// released runs a step of a small model, bit by bit, and looks whether the memory in which gradients were summed is
// given back. Prints what is held and ends with 1 where it is not.
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/model/prepare_torch.hpp"

namespace {

using namespace espalier::torchrt;

constexpr int kLayers = 2, kSamples = 2;

Config small() {
  Config config;
  config.model.family = "gpt2";
  config.model.layers = kLayers;
  config.model.hidden = 64;
  config.model.heads = 4;
  config.model.sequence = 16;
  config.model.tied_embeddings = false;
  config.model = completed(config.model);
  config.training.steps = 10;
  config.training.global_batch = kSamples;
  return config;
}

std::size_t held(Compute& compute) {
  compute.reset_peak();  // the peak is what is held, until something is allocated
  return compute.peak_tensor_bytes();
}

}  // namespace

int main() {
  prepare_torch(1);
  const Config config = small();
  const std::unique_ptr<Device> device = make_cpu_device();
  const Layout layout = make_layout(pipeline_of({{"a", 0}}, kLayers, 1, kSamples), kLayers);
  const std::vector<int> numbers = layout.ranks.front().units;
  std::vector<UnitSpec> specs;
  for (const int unit : numbers) specs.push_back(unit_spec(config.model, unit));
  std::vector<std::unique_ptr<Allocation>> memory;
  std::vector<UnitView> units;
  for (const UnitSpec& spec : specs) {
    const StateLayout state = state_layout(spec, config.training.dtype, 1, 0);
    memory.push_back(device->allocate(state.bytes(), "state"));
    memory.push_back(device->allocate(gradient_bytes(spec.floats, true), "gradient"));
    units.push_back({&spec, state, memory.rbegin()[1]->data(), memory.back()->data()});
  }
  Compute compute(config, layout, 0, *device, nullptr, units);
  const std::size_t before = held(compute);
  const std::vector<std::int64_t> tokens(static_cast<std::size_t>(kSamples * config.model.sequence), 1);
  compute.begin_step(1);
  compute.forward(0, 0, 0, {tokens, tokens});
  for (auto unit = numbers.rbegin(); unit != numbers.rend(); ++unit) {
    compute.backward(0, *unit);
    compute.weight_gradient(0, *unit);
  }
  compute.begin_step(2);
  const std::size_t between = held(compute);
  compute.release_memory();
  const std::size_t after = held(compute);
  std::printf("%zu bytes before the first step, %zu between two steps, %zu once released\n", before, between, after);
  const auto matrix = static_cast<std::size_t>(config.model.hidden) * static_cast<std::size_t>(config.model.hidden);
  return between >= before + matrix * sizeof(float) && after < before + matrix * sizeof(float) ? 0 : 1;
}
