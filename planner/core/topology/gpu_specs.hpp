// Vendors' figures for common GPUs, so that a site need not give them.
#pragma once

#include <optional>
#include <string>

#include "planner/core/model/hardware.hpp"

namespace espalier {

struct GpuSpec {
  GpuType type;
  double link = 0;  // NVLink or Infinity Fabric to all peers, bytes/ms per direction; 0: PCIe only
};

// Looks up Slurm's GRES type. Sites write it as "h100" or, like NVML, as "nvidia_a100-sxm4-80gb".
// The word that names a model decides; "80gb" gives the memory. The result's name is `gres_type`
// itself. nullopt: not a known model.
std::optional<GpuSpec> known_gpu(const std::string& gres_type);

}  // namespace espalier
