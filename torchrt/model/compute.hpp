// The arithmetic of one rank: its units' forward, backward and update, on libtorch. This header and
// all code above it are free of torch; they exchange device memory with this class.
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

// One unit's state in device memory. The caller owns the memory, which must outlive the Compute.
struct UnitView {
  const UnitSpec* spec = nullptr;
  StateLayout state;
  void* memory = nullptr;    // state.bytes()
  void* gradient = nullptr;  // gradient_bytes(); after update(): the gradient that it used, float32
};

// Memory of torch that stays valid as long as `keep` is held.
struct Slice {
  Buffer buffer;
  std::shared_ptr<const void> keep;
};

// Every unit is differentiated as a graph of its own. So no number depends on where a plan cuts the
// pipeline. With accuracy = bitwise every sample is a graph of its own too, and gradients are
// summed as integers (int64, in units of 2^-50): their sum does not depend on the order.
// Activations and their gradients are [samples of this rank, tokens, hidden] in the parameters' type: `sequence`
// tokens, with MTP modules those of all that flows there (flow.hpp). `first` and `count` count this rank's samples.
// `chunk` is one of this rank's. A chunk whose neighbour is on this rank, too, takes input and gradient from there. For
// one thread. Calls in a wrong order break invariants. Errors of torch are thrown as Error.
class Compute {
 public:
  // For rank `rank` of `layout`. `tensor_group`: the tensor-parallel ranks; null: TP is 1. `units`: of the rank,
  // ascending.
  Compute(const Config& config, const Layout& layout, int rank, const Device& device, Group* tensor_group,
          std::vector<UnitView> units);
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  // Moves the unit to other memory. Do not call it between begin_step() and the last update().
  void rebind(const UnitView& unit);
  // Forgets gradients, loss and all micro-batches. `step` counts from 1.
  void begin_step(std::int64_t step);
  // As begin_step(), but for micro-batches that only go forward: no graphs are kept, and no
  // dropout.
  void begin_evaluation();

  // The memory for receiving the input of a chunk for a micro-batch, before forward(). Not for the first chunk.
  Buffer input(int chunk, int micro_batch, int first, int count);
  // `first_sample`: the number of this rank's first sample in the whole training; dropout depends
  // on it. The first chunk uses the tokens of `batch`, the last chunk the targets.
  void forward(int chunk, int micro_batch, std::uint64_t first_sample, const Batch& batch);
  Slice output(int chunk, int micro_batch, int first, int count);

  // The memory for receiving the gradient of the output, before backward(). Not for the last chunk.
  Buffer output_gradient(int chunk, int micro_batch, int first, int count);
  // Call it for a chunk's units in descending order. It computes the gradient of the unit's input;
  // weight_gradient() computes the weights' gradients, at any time later.
  void backward(int micro_batch, int unit);
  void weight_gradient(int micro_batch, int unit);
  // Call it after backward() of the chunk's first unit, before anything else is computed: then the gradient is
  // forgotten.
  Slice input_gradient(int chunk, int micro_batch, int first, int count);

  // With the head: the cross entropies of all tokens since begin_step(), summed, times kLossUnit. Bitwise:
  // each sample's term is rounded to a whole number, so that the sums are exact. 0 on other stages,
  // and on TP ranks other than 0. Waits for the device.
  double loss_sum();
  static constexpr double kLossUnit = 1 << 20;
  // The same of the MTP modules, all depths together. 0 without modules, and after begin_evaluation().
  double ahead_loss_sum();
  // Bitwise: true when a sample's gradient on this rank was not a number or was too large for its
  // integer form (2^12 / global batch). The sums of all ranks are then worthless. Waits for the
  // device.
  bool out_of_range();

  // The unit's gradient, to be summed over the replicas in place: UnitSpec::floats elements of
  // float32; bitwise: int64.
  Buffer gradient(int unit);
  // Call it when the sum over the replicas is done. Bitwise: turns the sum into float32.
  void reduced(int unit);
  // Rows `rows` (of the whole table, inside this rank's shard) of the tied table's gradient,
  // float32. They are as reduced() left them, whatever add_tied() has added since. Valid until
  // begin_step(). Read-only.
  Buffer tied_gradient(int unit, Range rows);
  void add_tied(int unit, Range rows, Buffer received);
  // Sums of squares in float64, by place in `units`: of the whole shard or of this replica's ZeRO
  // part. Tensors that are the same on all TP ranks count on TP rank 0 only. The tied table counts
  // in unit 0 only. Waits for the device, once.
  struct NormOf {
    int unit = 0;
    bool whole = false;
  };
  std::vector<double> squared_norms(const std::vector<NormOf>& units);
  // AdamW on this rank's part of the state. First `scale` multiplies the gradient (clipping).
  void update(int unit, std::int64_t step, double learning_rate, double scale);
  // UnitSpec::floats elements. With ZeRO-1 they are gathered after update().
  Buffer parameters(int unit);

  // The most bytes that torch held at once since reset_peak(), without the units' state and
  // gradients. CPU: tensors of this process; CUDA: the caching allocator's.
  std::size_t peak_bytes() const;
  // Of tensors alone. CUDA's allocator keeps more for later ones.
  std::size_t peak_tensor_bytes() const;
  void reset_peak();
  // Between two steps: gives the memory that torch keeps for later tensors, that in which gradients are summed, and the
  // copies of tied gradients back to the device. Waits for the device.
  void release_memory();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Gives the memory that torch keeps for later tensors back to the device, also that of a Compute that is gone. Waits
// for the device.
void release_kept_memory(const Device& device);

}  // namespace espalier::torchrt
