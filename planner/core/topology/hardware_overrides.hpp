// The site's own figures, which override data sheets and hwloc: sections [gpu.NAME] and [network]
// of espalier.toml, and of what `espalier calibrate` wrote.
#pragma once

#include <map>
#include <string>

namespace espalier {

struct GpuOverride {  // 0: not given
  double tflops = 0;
  double memory_gb = 0;  // 1e9 bytes
  double memory_bandwidth_gb_s = 0;
  std::string measured = {};  // when `espalier calibrate` measured it; empty: it did not
  // Of nodes with this type, in place of those of all nodes (HardwareOverrides).
  double nic_gb_s = 0;
  int nics = 0;
  bool operator==(const GpuOverride&) const = default;
};

struct HardwareOverrides {
  std::map<std::string, GpuOverride> gpus;  // by Slurm's GRES type
  double tp_gb_s = 0;                       // NodeKind::tp_bandwidth of all nodes; 0: derived
  double dp_gb_s = 0;                       // NodeKind::dp_bandwidth; 0: derived
  double nic_gb_s = 10;
  int nics = 0;
  double crossing = 0.5;
  double v0_mb = 1;
  double v_sat_mb = 150;
  std::string measured = {};  // as GpuOverride::measured
  bool operator==(const HardwareOverrides&) const = default;
};

}  // namespace espalier
