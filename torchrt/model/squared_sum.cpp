#include "torchrt/model/squared_sum.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <array>
#include <cstdint>
#include <vector>

namespace espalier::torchrt {

namespace {

// Fixed, so that the result does not depend on the number of threads.
constexpr std::int64_t kChunk = 1 << 16;

double chunk_sum(const float* values, std::int64_t count) {
  std::array<double, 8> lanes{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const double value = values[i + static_cast<std::int64_t>(lane)];
      lanes[lane] += value * value;
    }
  double total = 0;
  for (; i < count; ++i) total += static_cast<double>(values[i]) * values[i];
  for (const double lane : lanes) total += lane;
  return total;
}

double on_host(const at::Tensor& values) {
  const std::int64_t count = values.numel(), chunks = (count + kChunk - 1) / kChunk;
  const float* const data = values.const_data_ptr<float>();
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t c = first; c < end; ++c)
      sums[static_cast<std::size_t>(c)] = chunk_sum(data + c * kChunk, std::min(kChunk, count - c * kChunk));
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

std::vector<double> squared_sums(const std::vector<at::Tensor>& values) {
  std::vector<double> sums;
  if (values.empty()) return sums;
  if (values.front().is_cpu()) {
    for (const at::Tensor& one : values) sums.push_back(on_host(one));
    return sums;
  }
  std::vector<at::Tensor> norms;
  for (const at::Tensor& one : values)
    norms.push_back(at::linalg_vector_norm(one, 2, std::nullopt, false, at::kDouble));
  const at::Tensor all = at::stack(norms).cpu();
  const double* const found = all.const_data_ptr<double>();
  for (std::size_t i = 0; i < values.size(); ++i) sums.push_back(found[i] * found[i]);
  return sums;
}

}  // namespace espalier::torchrt
