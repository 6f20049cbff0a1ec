// Random models and plans for the tests of hand-offs. A rank's state by coordinates.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "torchrt/handoff/transfer/plan.hpp"

namespace espalier::torchrt {

// A tiny model. Heads, key and value heads and the width divide by 4. The vocabulary divides by
// nothing.
ModelConfig random_transfer_model(std::mt19937& random);
// On a random part of 5 nodes of 4 GPUs. TP is 1, 2 or 4, and some GPUs are unused. Each stage
// draws its parallelism anew.
Plan random_transfer_plan(std::mt19937& random, int layers);
// Between two such plans.
TransferRequest random_request(std::mt19937& random, int layers);
// Whether the request's generations share a node.
bool share_a_node(const TransferRequest& request);
GenerationLayout before(const TransferRequest& request, int layers);
GenerationLayout after(const TransferRequest& request, int layers);

// Visits every element of the state that a rank holds of a unit. `number` is the element's place
// among all elements of the model's state; it is the same wherever the element is held. `at` is the
// place of the element's bytes in the rank's allocation.
class Elements {
 public:
  explicit Elements(const ModelConfig& model, DataType dtype);
  // Calls see(number, at, bytes).
  template <class Function>
  void each(const GenerationLayout& generation, int rank, int unit, const Function& see) const {
    const auto [spec, state] = shard(generation, rank, unit);
    for (const TensorSpec& tensor : spec.tensors) {
      std::int64_t local = static_cast<std::int64_t>(tensor.offset);
      for (const Range& rows : tensor.rows)
        for (std::int64_t row = rows.first; row < rows.end(); ++row)
          for (std::int64_t c = 0; c < tensor.columns.count; ++c, ++local) {
            const std::int64_t columns = tensor.global_shape.size() > 1 ? tensor.global_shape[1] : 1;
            const std::int64_t number =
                4 * (starts_.at(tensor.hugging_face) + row * columns + tensor.columns.first + c);
            const auto parameter = size_of(state.dtype);
            see(number, static_cast<std::size_t>(local) * parameter, parameter);
            if (local < state.shard.first || local >= state.shard.end()) continue;
            const std::size_t place = static_cast<std::size_t>(local - state.shard.first) * 4;
            if (state.has_master()) see(number + 1, state.master_offset() + place, std::size_t{4});
            see(number + 2, state.first_moment_offset() + place, std::size_t{4});
            see(number + 3, state.second_moment_offset() + place, std::size_t{4});
          }
    }
  }
  std::int64_t count() const { return 4 * next_; }
  // The allocation's bytes when every element has a value of its own, made from its number. Another
  // `step` gives other values.
  std::vector<char> state(const GenerationLayout& generation, int rank, int unit, int step = 0) const;

 private:
  std::pair<UnitSpec, StateLayout> shard(const GenerationLayout& generation, int rank, int unit) const;

  const ModelConfig& model_;
  DataType dtype_;
  std::map<std::string, std::int64_t> starts_;  // of tensors, in elements
  std::int64_t next_ = 0;
};

}  // namespace espalier::torchrt
