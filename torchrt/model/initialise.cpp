#include "torchrt/model/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "planner/core/error.hpp"
#include "torchrt/random.hpp"

namespace espalier::torchrt {

namespace {

// Box-Muller on two 32-bit halves of one hash. Each coordinate has its own value, so any part of a
// tensor can be drawn alone.
double normal(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = mix(key, index);
  const double u = (static_cast<double>(bits >> 32) + 0.5) / 4294967296.0;
  const double v = static_cast<double>(bits & 0xffffffffu) / 4294967296.0;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace

void initialise(const UnitSpec& spec, std::uint64_t seed, std::span<float> parameters) {
  ESPALIER_INVARIANT(parameters.size() == spec.floats);
  for (const TensorSpec& tensor : spec.tensors) {
    const std::span<float> values = parameters.subspan(tensor.offset, tensor.elements());
    if (tensor.init_scale == 0) {
      std::fill(values.begin(), values.end(), tensor.init_value);
      continue;
    }
    const std::uint64_t key = mix(seed, hash_name(tensor.hugging_face));
    const std::uint64_t width = tensor.global_shape.size() > 1 ? static_cast<std::uint64_t>(tensor.global_shape[1]) : 1;
    std::size_t place = 0;
    for (const Range& rows : tensor.rows)
      for (std::int64_t row = rows.first; row < rows.end(); ++row)
        for (std::int64_t column = tensor.columns.first; column < tensor.columns.end(); ++column)
          values[place++] = static_cast<float>(tensor.init_scale * normal(key, static_cast<std::uint64_t>(row) * width +
                                                                                   static_cast<std::uint64_t>(column)));
  }
}

}  // namespace espalier::torchrt
