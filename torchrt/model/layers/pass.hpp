// A layer's needs besides its input: the model, the ranks with the other shards, the list of
// parameter gradients, and the values on which dropout depends. Includes torch, as all of layers/
// does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "torchrt/comm/group.hpp"
#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

// A tensor of a unit: its values and its place in UnitSpec::tensors, which identifies its gradient.
// It is no leaf of any graph: the layers' nodes note the parameters' gradients themselves.
struct Parameter {
  at::Tensor value;  // undefined: the layer has none
  int index = -1;
};

// A parameter's gradient that is computed and added later. It keeps its tensors until then.
struct PutOff {
  enum class Kind {
    product,  // transpose(left) x right
    row_sum,  // sum of the rows of `left`
    value,    // `left`, for the parameter's first rows
    scatter,  // row i of `left` belongs to row right[i]
  };
  Kind kind = Kind::value;
  int parameter = -1;
  at::Tensor left, right;
  double scale = 1;
};
using PutOffs = std::vector<PutOff>;

// One run of one unit over some samples.
struct Pass {
  const ModelConfig& model;
  Group* tensor_group = nullptr;  // null: TP 1
  int tp = 1, tp_rank = 0;
  PutOffs* gradients = nullptr;  // null: only forward; else it outlives the graph
  bool dropout = false;
  std::uint64_t seed = 0, first_sample = 0;
  int unit = 0;
};

// Sums over the tensor-parallel ranks, in place. `tensor` is contiguous.
void sum_over(Group* group, const at::Tensor& tensor);
void max_over(Group* group, const at::Tensor& tensor);
Buffer buffer_of(const at::Tensor& tensor);

}  // namespace espalier::torchrt
