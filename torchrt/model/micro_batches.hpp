// The micro-batches that are under way on a rank: what flows into its chunks and out of them, and the graphs of the
// units between. Includes torch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "torchrt/data.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/model/flow.hpp"
#include "torchrt/model/rank_units.hpp"

namespace espalier::torchrt {

// Runs chunks forward and backward. The methods that Compute has too do what it says of them, but torch's errors pass
// through here. For one thread.
class MicroBatches {
 public:
  // For rank `rank` of `layout`. `tensor_group`: null: TP is 1. `context` and `units` must outlive it; units may
  // come later.
  MicroBatches(const UnitContext& context, const RankUnits& units, const Layout& layout, int rank, Group* tensor_group);

  // Forgets all micro-batches and the losses. `seed`: of the step's dropout. `evaluating`: the next micro-batches only
  // go forward.
  void begin(std::uint64_t seed, bool evaluating);
  void clear() { micro_batches_.clear(); }

  Buffer input(int chunk, int micro_batch, int first, int count);
  void forward(int chunk, int micro_batch, std::uint64_t first_sample, const Batch& batch);
  Slice output(int chunk, int micro_batch, int first, int count) const;
  Buffer output_gradient(int chunk, int micro_batch, int first, int count);
  void backward(int micro_batch, int unit);
  void weight_gradient(int micro_batch, int unit);
  Slice input_gradient(int chunk, int micro_batch, int first, int count) const;

  const RankLayout& self() const { return self_; }
  // Since begin(), of what has gone through the last chunk: the model's own loss, then each MTP depth's. On the device,
  // float64, times Compute::kLossUnit.
  const at::Tensor& losses() const { return losses_; }

 private:
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

  const ChunkLayout& chunk_layout(int number) const;
  bool is_first(int chunk) const { return chunk == 0; }
  bool is_last(int chunk) const { return static_cast<std::size_t>(chunk) + 1 == layout_.chunks.size(); }
  bool is_here(int neighbour) const;
  FlowRules rules() const { return {context_.model, !evaluating_}; }
  bool recomputed(const Unit& unit) const;
  std::vector<std::int64_t> activation_shape(int unit) const;
  Buffer part(at::Tensor& activation, int unit, int first, int count) const;
  Slice slice(const at::Tensor& activation, int first, int count) const;
  at::Tensor token_tensor(const std::vector<std::int64_t>& values) const;
  Pass pass(const Unit& unit, const MicroBatch& micro, const SampleGroup& group, PutOffs* gradients) const;
  at::Tensor run(const Unit& unit, const MicroBatch& micro, const SampleGroup& group, const Flow& inputs,
                 PutOffs* gradients) const;
  void forward(int number, MicroBatch& micro, SampleGroup& group);
  void backward(int number, MicroBatch& micro, std::span<SampleGroup> groups, int unit_number) const;
  void keep(at::Tensor& all, int unit, const SampleGroup& group, const Flow& flow) const;
  void forget_sent(int number, int micro_batch);
  void forget_sent_gradient();

  const UnitContext& context_;
  const RankUnits& units_;
  Layout layout_;
  RankLayout self_;
  Group* tensor_group_;
  std::map<std::pair<int, int>, MicroBatch> micro_batches_;  // by chunk and number
  std::pair<int, int> sent_{-1, -1};  // the last of them whose input's gradient goes to another rank
  at::Tensor losses_;
  std::uint64_t step_seed_ = 0;
  bool evaluating_ = false;
};

}  // namespace espalier::torchrt
