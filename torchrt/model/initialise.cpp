#include "torchrt/model/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <system_error>
#include <thread>
#include <vector>

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

// Below so many values a thread costs more than it saves. A value takes about 30 ns.
constexpr std::int64_t kLeastValues = 1 << 16;
constexpr unsigned kMostThreads = 16;

// Calls `fill` for slices of [0, rows), each in a thread of its own where there are enough values. A node's ranks do
// this at the same time, for some seconds: their threads share its processors.
template <class Fill>
void in_slices(std::int64_t rows, std::int64_t values, const Fill& fill) {
  const std::int64_t most = std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
  const std::int64_t slices = std::max<std::int64_t>(1, std::min({most, rows, values / kLeastValues}));
  std::vector<std::jthread> threads;
  std::int64_t first = 0;  // of the slice that this thread fills
  try {
    for (; first + 1 < slices; ++first) threads.emplace_back(fill, rows * first / slices, rows * (first + 1) / slices);
  } catch (const std::system_error&) {  // no more threads are allowed: this one does the rest
  }
  fill(rows * first / slices, rows);
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
    const std::int64_t columns = tensor.columns.count;
    std::size_t place = 0;
    for (const Range& rows : tensor.rows) {
      const std::span<float> part = values.subspan(place, static_cast<std::size_t>(rows.count * columns));
      place += part.size();
      in_slices(rows.count, rows.count * columns, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t at = from; at < to; ++at)
          for (std::int64_t column = 0; column < columns; ++column)
            part[static_cast<std::size_t>(at * columns + column)] = static_cast<float>(
                tensor.init_scale * normal(key, static_cast<std::uint64_t>(rows.first + at) * width +
                                                    static_cast<std::uint64_t>(tensor.columns.first + column)));
      });
    }
  }
}

}  // namespace espalier::torchrt
