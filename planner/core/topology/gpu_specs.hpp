// Vendors' figures for common GPUs, so that a site need not write them down.
#pragma once

#include <optional>
#include <string>

#include "planner/core/model/hardware.hpp"

namespace espalier {

struct GpuSpec {
  GpuType type;
  double link = 0;  // NVLink or Infinity Fabric to all peers, bytes/ms per direction; 0: PCIe only
};

// By Slurm's GRES type, which sites write as "h100" and NVML-like as "nvidia_a100-sxm4-80gb": the word in it that names
// a model counts, and "80gb" its memory. The name in the result is `gres_type` itself. nullopt: not a known model.
std::optional<GpuSpec> known_gpu(const std::string& gres_type);

}  // namespace espalier
