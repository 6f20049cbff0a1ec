#include "torchrt/model/fixed_point.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "torchrt/model/fixed_point_device.hpp"
#include "torchrt/model/fixed_point_units.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::int64_t kGrain = 1 << 15;

// The compiler can vectorize it: see this file's flags in torchrt.mk.
template <bool fresh>
bool add_range(std::int64_t* total, const float* values, std::int64_t count, float most) {
  bool good = true;
  for (std::int64_t i = 0; i < count; ++i) {
    good &= std::fabs(values[i]) < most;
    const std::int64_t units = units_of(values[i]);
    total[i] = fresh ? units : total[i] + units;
  }
  return good;
}

void add_on_host(const at::Tensor& total, const at::Tensor& values, bool fresh, float most,
                 const at::Tensor& out_of_range) {
  std::int64_t* const to = total.mutable_data_ptr<std::int64_t>();
  const float* const from = values.const_data_ptr<float>();
  std::atomic<bool> good = true;
  const std::int64_t count = total.numel();
  at::parallel_for(0, count, kGrain, [&](std::int64_t first, std::int64_t end) {
    // In pieces that stay in the cache until all tensors' values are added.
    for (std::int64_t begin = first; begin < end; begin += kGrain) {
      const std::int64_t length = std::min(kGrain, end - begin);
      for (std::int64_t place = begin; place < values.numel(); place += count) {
        const bool all = fresh && place == begin ? add_range<true>(to + begin, from + place, length, most)
                                                 : add_range<false>(to + begin, from + place, length, most);
        if (!all) good = false;
      }
    }
  });
  if (!good) out_of_range.fill_(true);
}

}  // namespace

void add_fixed_point(const at::Tensor& total, const at::Tensor& values, bool fresh, double most,
                     const at::Tensor& out_of_range) {
  if (values.is_cpu()) add_on_host(total, values, fresh, static_cast<float>(most), out_of_range);
  else add_fixed_point_on_device(total, values, fresh, static_cast<float>(most), out_of_range);
}

void from_fixed_point(const at::Tensor& values, const at::Tensor& total) {
  if (!values.is_cpu()) return from_fixed_point_on_device(values, total);
  float* const to = values.mutable_data_ptr<float>();
  const std::int64_t* const from = total.const_data_ptr<std::int64_t>();
  at::parallel_for(0, total.numel(), kGrain, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) to[i] = value_of(from[i]);
  });
}

}  // namespace espalier::torchrt
