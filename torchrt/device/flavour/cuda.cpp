// The CUDA flavour's choice; linked into espalier-train-cuda only. On a machine without a GPU it
// trains on the processor, so that the same program runs everywhere. comm/flavour/cuda.cpp checks
// that all ranks do the same.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/device/cuda.hpp"
#include "torchrt/device/cuda_driver.hpp"
#include "torchrt/device/device_error.hpp"
#include "torchrt/device/gpu_islands.hpp"

namespace espalier::torchrt {

namespace {

// The PCI bus ids of the Slurm job's GPUs on this node; none: the launcher does not know them.
std::vector<std::string> bus_ids() {
  const char* const all = std::getenv("ESPALIER_GPUS");
  std::istringstream in(all != nullptr ? all : "");
  std::vector<std::string> ids;
  for (std::string id; std::getline(in, id, ',');) ids.push_back(id);
  return ids;
}

// Of the GPU with this number among those; empty: unknown.
std::string bus_id(int number) {
  const std::vector<std::string> ids = bus_ids();
  return number >= 0 && static_cast<std::size_t>(number) < ids.size() ? ids[static_cast<std::size_t>(number)] : "";
}

// The node's own trouble, which another node may not have.
void must_be_ready(cudaError_t found) {
  if (found != cudaErrorSystemNotReady && found != cudaErrorSystemDriverMismatch) return;
  ::cudaGetLastError();
  const std::string words = std::string("CUDA: looking for GPUs failed: ") + ::cudaGetErrorString(found) + "; ";
  if (found == cudaErrorSystemNotReady)
    throw DeviceError(words +
                      "where NVSwitch joins a node's GPUs, its fabric manager must run, of the driver's own version: "
                      "look at systemctl status nvidia-fabricmanager on this rank's node");
  throw DeviceError(words +
                    "the driver in the kernel and the libcuda that this rank loads are of different versions: load the "
                    "driver anew or restart this rank's node after an update, and let no container and no "
                    "LD_LIBRARY_PATH bring a libcuda of its own; nvidia-smi tells of the driver");
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
  must_be_ready(found);
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

std::vector<int> gpu_islands() {
  int count = 0;
  if (::cudaGetDeviceCount(&count) != cudaSuccess) {
    ::cudaGetLastError();  // make_device() has said so
    return {};
  }
  std::vector<int> visible;  // by place; -1: it is gone
  for (const std::string& id : bus_ids()) {
    int index = -1;
    if (::cudaDeviceGetByPCIBusId(&index, id.c_str()) != cudaSuccess) index = -1;
    visible.push_back(index);
  }
  ::cudaGetLastError();
  for (int index = 0; bus_ids().empty() && index < count; ++index) visible.push_back(index);
  return islands(static_cast<int>(visible.size()), [&](int from, int to) {
    const int one = visible[static_cast<std::size_t>(from)], other = visible[static_cast<std::size_t>(to)];
    int can = 0;
    if (one < 0 || other < 0 || ::cudaDeviceCanAccessPeer(&can, one, other) != cudaSuccess) can = 0;
    return can != 0;
  });
}

}  // namespace espalier::torchrt
