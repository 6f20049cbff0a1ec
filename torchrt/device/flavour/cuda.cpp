// The CUDA flavour's choice; linked into espalier-train-cuda only. On a machine without a GPU it
// trains on the processor, so that the same program runs everywhere. comm/flavour/cuda.cpp checks
// that all ranks do the same.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "planner/core/error.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/device/cuda.hpp"
#include "torchrt/device/cuda_driver.hpp"
#include "torchrt/device/device_error.hpp"

namespace espalier::torchrt {

namespace {

// The PCI bus id of the GPU with this number among those of the Slurm job; empty: the launcher does not know it.
std::string bus_id(int number) {
  const char* const all = std::getenv("ESPALIER_GPUS");
  std::istringstream in(all != nullptr ? all : "");
  std::string id;
  for (int at = 0; std::getline(in, id, ',');)
    if (at++ == number) return id;
  return "";
}

int visible_at(const std::string& bus_id) {
  int index = 0;
  const cudaError_t found = ::cudaDeviceGetByPCIBusId(&index, bus_id.c_str());
  if (found == cudaErrorInvalidDevice) {
    ::cudaGetLastError();
    throw DeviceError("CUDA: this rank is to train on the GPU at " + bus_id +
                      " and does not see it; it may have fallen off the bus: look at nvidia-smi and dmesg on its node");
  }
  must_run(found, "looking for the GPU by its place on the bus");
  return index;
}

}  // namespace

std::unique_ptr<Device> make_device(std::optional<int> assigned, int local_rank) {
  // CUDA's own order is by speed. The launcher's ranks have this from their start.
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  int count = 0;
  const cudaError_t found = ::cudaGetDeviceCount(&count);
  if (found == cudaErrorNoDevice || found == cudaErrorInsufficientDriver) {
    ::cudaGetLastError();  // clears the error, so that no later call reports it
    if (assigned && !bus_id(*assigned).empty())
      throw DeviceError("CUDA: this rank is to train on the GPU at " + bus_id(*assigned) +
                        " and sees no GPU at all: look at nvidia-smi, the driver and dmesg on its node");
    std::fprintf(stderr, "espalier: train: no GPU is visible; training on the processor\n");
    return make_cpu_device();
  }
  must_run(found, "looking for GPUs");
  // A place among the visible GPUs is another one after a GPU has failed.
  if (const std::string id = assigned ? bus_id(*assigned) : ""; !id.empty()) return make_cuda_device(visible_at(id));
  const int index = assigned.value_or(count == 1 ? 0 : local_rank);
  if (index >= count)
    throw Error("CUDA: this rank is to train on GPU " + std::to_string(index) + " of those it sees, and sees " +
                std::to_string(count) +
                (assigned ? "; srun must give the job's step all GPUs of the job, and no task a part of them"
                          : "; start one rank per GPU"));
  return make_cuda_device(index);
}

}  // namespace espalier::torchrt
