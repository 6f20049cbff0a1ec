// The CPU flavour's choice; linked into espalier-train only.
#include "torchrt/device/cpu.hpp"
#include "torchrt/device/gpu_islands.hpp"

namespace espalier::torchrt {

std::unique_ptr<Device> make_device(std::optional<int>, int) { return make_cpu_device(); }

std::vector<int> gpu_islands() { return {}; }

}  // namespace espalier::torchrt
