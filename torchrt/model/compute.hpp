// The arithmetic of one rank: its units' forward, backward and update, on libtorch. This header and everything above it
// is free of torch; activations cross it as host memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "torchrt/data.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/layout.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// One unit's state in device memory; owned by the caller and outliving the Compute.
struct UnitView {
  const UnitSpec* spec = nullptr;
  float* parameters = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
};

// Call before anything else of torch in the process: one thread, reproducible kernels.
void prepare_torch();

// Every unit is differentiated as a graph of its own, so that no number depends on where a plan cuts the pipeline.
// One thread. Broken sequences of calls are invariants, torch's own errors are thrown as Error.
class Compute {
 public:
  Compute(const Config& config, const RankLayout& layout, const Device& device, std::vector<UnitView> units);
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  // The unit's memory is another one from now on. Not between begin_step() and the last update().
  void rebind(const UnitView& unit);
  // Zeroes gradients and the loss and forgets all micro-batches.
  void begin_step();
  // `input`: the activation of the stage before (empty on the first), samples x sequence x hidden. Tokens of `batch`
  // are used by the first stage, targets by the last.
  void forward(int micro_batch, const Batch& batch, std::span<const float> input);
  // Valid until begin_step().
  std::span<const float> output(int micro_batch);
  // `gradient` of the output (empty on the last stage). Drops the micro-batch's activations.
  void backward(int micro_batch, std::span<const float> gradient);
  std::span<const float> input_gradient(int micro_batch);
  // Sum over the tokens of all micro-batches done since begin_step(), on the last stage.
  double loss_sum() const;

  // The gradient of a unit for a sum over replicas; write the sum in place, then call reduced().
  std::span<float> gradient(int unit);
  void reduced(int unit);
  double squared_norm(int unit);
  // AdamW; `step` counts from 1, `scale` multiplies the gradient first (clipping).
  void update(int unit, std::int64_t step, double learning_rate, double scale);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier::torchrt
