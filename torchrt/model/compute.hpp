// The arithmetic of one rank: its units' forward, backward and update, on libtorch. This header and everything above it
// is free of torch; what crosses it is device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "torchrt/comm/buffer.hpp"
#include "torchrt/comm/group.hpp"
#include "torchrt/config.hpp"
#include "torchrt/data.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/layout.hpp"
#include "torchrt/model/state_layout.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// One unit's state in device memory; owned by the caller and outliving the Compute.
struct UnitView {
  const UnitSpec* spec = nullptr;
  StateLayout state;
  void* memory = nullptr;    // state.bytes()
  void* gradient = nullptr;  // gradient_bytes(): after update() what the update used, float32
};

// Memory of torch's that stays valid as long as `keep` is held.
struct Slice {
  Buffer buffer;
  std::shared_ptr<const void> keep;
};

// Call before anything else of torch in the process: reproducible kernels, `threads` threads, counted memory.
void prepare_torch(int threads);

// Every unit is differentiated as a graph of its own, so that no number depends on where a plan cuts the pipeline.
// accuracy = bitwise: also every sample, and gradients are summed as integers (int64, in units of 2^-50), which has no
// order. Activations and their gradients are [samples of this rank, sequence, hidden] in the parameters' type; `first`
// and `count` are samples of the rank's own. One thread. Broken sequences of calls are invariants, torch's own errors
// are thrown as Error.
class Compute {
 public:
  // `tensor_group`: of TP; null where TP is 1.
  Compute(const Config& config, const RankLayout& layout, const Device& device, Group* tensor_group,
          std::vector<UnitView> units);
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  // The unit's memory is another one from now on. Not between begin_step() and the last update().
  void rebind(const UnitView& unit);
  // Forgets gradients, loss and all micro-batches. `step` counts from 1.
  void begin_step(std::int64_t step);
  // As begin_step(), for micro-batches that are only forwarded: no graphs are kept, nothing is dropped out.
  void begin_evaluation();

  // Where the input of a micro-batch is to be received, before forward(). Not on the first stage.
  Buffer input(int micro_batch, int first, int count);
  // `first_sample`: number, in the whole training, of this rank's first sample; dropout depends on it. Tokens of
  // `batch` are used by the first stage, targets by the last.
  void forward(int micro_batch, std::uint64_t first_sample, const Batch& batch);
  Slice output(int micro_batch, int first, int count);

  // Where the gradient of the output is to be received, before backward(). Not on the last stage.
  Buffer output_gradient(int micro_batch, int first, int count);
  // Units in descending order. Leaves the gradient of the unit's input; the weights' comes with weight_gradient().
  void backward(int micro_batch, int unit);
  void weight_gradient(int micro_batch, int unit);
  // After backward() of the rank's first unit.
  Slice input_gradient(int micro_batch, int first, int count);

  // Last stage: the cross entropies of all tokens since begin_step(), times 2^20; bitwise: each sample's rounded to a
  // whole number, so that such sums are exact. 0 elsewhere, and on TP ranks other than 0. Waits for the device.
  double loss_sum();
  // bitwise: a sample's gradient was not a number or too large for its integer form (2^12 / global batch), on this
  // rank. The sums are then worthless on all. Waits for the device.
  bool out_of_range();

  // What is summed over replicas, in place: UnitSpec::floats elements; float32, or int64 with bitwise.
  Buffer gradient(int unit);
  // The sum is there. bitwise: makes it float32.
  void reduced(int unit);
  // float32, of the tied table: global rows `rows`, inside this rank's shard; as reduced() left them, whatever
  // add_tied() did since. Valid until begin_step(); writable by nobody.
  Buffer tied_gradient(int unit, Range rows);
  void add_tied(int unit, Range rows, Buffer received);
  // Sum of squares in float64; of the whole shard, or of this replica's ZeRO part. Tensors that are the same on all TP
  // ranks count on TP rank 0 only, the tied table in unit 0 only. Waits for the device.
  double squared_norm(int unit, bool whole);
  // AdamW on the state's part; `scale` multiplies the gradient first (clipping).
  void update(int unit, std::int64_t step, double learning_rate, double scale);
  // UnitSpec::floats elements; with ZeRO-1 gathered after update().
  Buffer parameters(int unit);

  // Most memory that torch held at once since reset_peak(), in bytes, without the units' state and gradients. CPU:
  // tensors of this process; CUDA: of the caching allocator.
  std::size_t peak_bytes() const;
  void reset_peak();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier::torchrt
