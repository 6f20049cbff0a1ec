#include "planner/core/model/hardware.hpp"

#include <algorithm>
#include <cmath>

namespace espalier {

int Hardware::type_index(const std::string& name) const {
  const auto at = std::find_if(types.begin(), types.end(), [&](const GpuType& type) { return type.name == name; });
  return at == types.end() ? -1 : static_cast<int>(at - types.begin());
}

double saturation(const Hardware& hardware, double bytes) {
  if (hardware.v_sat <= hardware.v0 || hardware.v0 <= 0) return 1;
  if (bytes <= hardware.v0) return 0.05;
  return std::clamp(std::log2(bytes / hardware.v0) / std::log2(hardware.v_sat / hardware.v0), 0.05, 1.0);
}

}  // namespace espalier
