// The CUDA flavour's choice; linked into espalier-train-cuda only. On a machine without a GPU it trains on the
// processor, so that the same program runs everywhere.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "torchrt/device/cpu.hpp"
#include "torchrt/device/cuda.hpp"

namespace espalier::torchrt {

std::unique_ptr<Device> make_device(int local_index) {
  int count = 0;
  if (::cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "espalier: train: no GPU is visible; training on the processor\n");
    return make_cpu_device();
  }
  // Slurm may show a rank its own GPU only, or all GPUs of the node.
  return make_cuda_device(local_index < count ? local_index : 0);
}

}  // namespace espalier::torchrt
