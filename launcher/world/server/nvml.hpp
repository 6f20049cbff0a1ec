// What NVIDIA's management library says of GPUs. It is found at run time: nothing of it is needed to build.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/world/server/gpu_errors.hpp"

namespace espalier::launcher {

// By bus id, as in "0000:41:00.0". Empty where libnvidia-ml.so.1 cannot be loaded or does not start. Creates no CUDA
// context. With a broken driver the library may hang or crash: this is for a process of its own that ends soon, and
// leaves the library as it is.
std::map<std::string, GpuErrors> read_gpu_errors(const std::vector<std::string>& bus_ids);

// The option of espalier-ranks for print_gpu_faults().
inline constexpr const char* kPrintGpuFaults = "--gpu-faults";
// Prints a line for each of these GPUs on which training is unsafe: its bus id, a space, and fault_of(). `bus_ids`:
// with commas. Returns the exit code: 2 for what is no bus id.
int print_gpu_faults(const std::string& bus_ids);

}  // namespace espalier::launcher
