// The kernels of fixed_point_device.hpp, compiled by nvcc (fixed_point.cu). Without torch.
#pragma once

#include <cstdint>

namespace espalier::torchrt {

// All pointers are of one GPU, the calling thread's current one. `stream`: a cudaStream_t. Returns CUDA's error code of
// the launch; 0: none. `values`: `parts` times `count`.
int launch_add_fixed_point(std::int64_t* total, const float* values, std::int64_t count, int parts, bool fresh,
                           float most, bool* out_of_range, void* stream);
int launch_from_fixed_point(float* values, const std::int64_t* total, std::int64_t count, void* stream);

}  // namespace espalier::torchrt
