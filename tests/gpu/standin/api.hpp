// What the stand-in for libcudart offers the other stand-ins.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace standin {

// Puts work on a stream; from any thread. Work returns a CUDA error.
using Target = std::function<void(std::function<int()>)>;
// Empty: there is no such stream.
Target target_of(cudaStream_t stream);
bool is_device_memory(const void* memory, std::size_t bytes);
// The host waits for the compute stream.
void drain_compute();
int torch_error();  // that has broken the context

}  // namespace standin
