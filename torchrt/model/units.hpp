// The model as a sequence of units, each with named tensors at fixed places of one allocation. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "torchrt/config.hpp"

namespace espalier::torchrt {

struct TensorSpec {
  std::string name;  // GPT-2's, without the layer's prefix
  std::vector<std::int64_t> shape;
  double init_scale = 0;  // standard deviation of the initial values; 0: `init_value` everywhere
  float init_value = 0;
  bool decay = false;      // weight decay applies
  std::size_t offset = 0;  // floats from the start of the unit's parameters; 64-byte aligned
  std::size_t elements() const;
};

// The state of a unit is three arrays of `floats` floats: parameters, first and second moments of AdamW. Tensors with
// weight decay come first, so that one fused update per half does.
struct UnitSpec {
  int unit = 0;
  std::vector<TensorSpec> tensors;
  std::size_t decay_floats = 0;  // the first half
  std::size_t floats = 0;        // including padding, which stays zero
  std::size_t state_bytes() const { return 3 * floats * sizeof(float); }
  const TensorSpec& tensor(const std::string& name) const;
};

// Units 0 (embedding), 1..layers (blocks), layers + 1 (final norm and head).
std::vector<UnitSpec> unit_specs(const ModelConfig& model);

}  // namespace espalier::torchrt
