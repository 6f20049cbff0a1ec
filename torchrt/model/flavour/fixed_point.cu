// Bound by memory: each thread takes values a grid apart, so that a warp reads and writes whole lines.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "torchrt/model/flavour/fixed_point_kernels.hpp"

namespace espalier::torchrt {
namespace {

constexpr int kThreads = 256;
// Enough for the largest GPUs to have all their threads twice; more values go round.
constexpr std::int64_t kMostBlocks = 2 * 160 * 2048 / kThreads;

// The product with 2^50 is exact in float: a subnormal value becomes a normal one, and a value whose product overflows
// is out of range anyway. So the conversion is the only rounding, as on a processor.
__device__ long long units_of(float value) { return __float2ll_rn(value * 0x1p50f); }

template <bool fresh>
__global__ void add_fixed_point(std::int64_t* __restrict__ total, const float* __restrict__ values, std::int64_t count,
                                int parts, float most, bool* out_of_range) {
  bool good = true;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    long long sum = fresh ? 0 : total[i];
#pragma unroll 4
    for (int part = 0; part < parts; ++part) {
      const float value = values[part * count + i];
      good &= fabsf(value) < most;  // false for what is no number
      sum += units_of(value);
    }
    total[i] = sum;
  }
  if (!good) *out_of_range = true;  // all that write, write the same
}

// Two roundings, to double and to float, as on a processor.
__global__ void from_fixed_point(float* __restrict__ values, const std::int64_t* __restrict__ total,
                                 std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    values[i] = __double2float_rn(__ll2double_rn(total[i]) * 0x1p-50);
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
}

}  // namespace

int launch_add_fixed_point(std::int64_t* total, const float* values, std::int64_t count, int parts, bool fresh,
                           float most, bool* out_of_range, void* stream) {
  if (count <= 0) return 0;
  const auto on = static_cast<cudaStream_t>(stream);
  const unsigned blocks = blocks_for(count);
  if (fresh) add_fixed_point<true><<<blocks, kThreads, 0, on>>>(total, values, count, parts, most, out_of_range);
  else add_fixed_point<false><<<blocks, kThreads, 0, on>>>(total, values, count, parts, most, out_of_range);
  return static_cast<int>(cudaGetLastError());
}

int launch_from_fixed_point(float* values, const std::int64_t* total, std::int64_t count, void* stream) {
  if (count <= 0) return 0;
  from_fixed_point<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(values, total, count);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace espalier::torchrt
