// The CUDA flavour's choice; linked into espalier-train-cuda only. On a machine without a GPU it
// trains on the processor, so that the same program runs everywhere. comm/flavour/cuda.cpp checks
// that all ranks do the same.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "planner/core/error.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/device/cuda.hpp"
#include "torchrt/device/cuda_driver.hpp"

namespace espalier::torchrt {

std::unique_ptr<Device> make_device(std::optional<int> assigned, int local_rank) {
  // Slurm counts GPUs by PCI address; CUDA's own order is by speed.
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  int count = 0;
  const cudaError_t found = ::cudaGetDeviceCount(&count);
  if (found == cudaErrorNoDevice || found == cudaErrorInsufficientDriver) {
    ::cudaGetLastError();  // clears the error, so that no later call reports it
    std::fprintf(stderr, "espalier: train: no GPU is visible; training on the processor\n");
    return make_cpu_device();
  }
  must_run(found, "looking for GPUs");
  const int index = assigned.value_or(count == 1 ? 0 : local_rank);
  if (index >= count)
    throw Error("CUDA: this rank is to train on GPU " + std::to_string(index) + " of those it sees, and sees " +
                std::to_string(count) +
                (assigned ? "; srun must give the job's step all GPUs of the job, and no task a part of them"
                          : "; start one rank per GPU"));
  return make_cuda_device(index);
}

}  // namespace espalier::torchrt
