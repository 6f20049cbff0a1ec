#include "planner/core/model/roofline.hpp"

#include <algorithm>

namespace espalier {
namespace {

// What large matrix products and copies reach of what the data sheet says. Ratios between types, which is what plans
// depend on, hardly change with these shares: on Arena's measured GPTs their mean error is the same for 0.6 to 0.8.
constexpr double kMatrixShare = 0.7, kMemoryShare = 0.8;

}  // namespace

double flop_rate(const GpuType& type, double traffic_per_flop) {
  const double peak = type.tflops * 1e9;
  if (type.memory_bandwidth <= 0 || traffic_per_flop <= 0) return peak * kSheetUtilization;
  return 1 / (1 / (peak * kMatrixShare) + traffic_per_flop / (type.memory_bandwidth * kMemoryShare));
}

bool bandwidths_known(const Hardware& hardware) {
  return std::all_of(hardware.types.begin(), hardware.types.end(),
                     [](const GpuType& type) { return type.memory_bandwidth > 0; });
}

double compared_traffic(const Hardware& hardware, double traffic_per_flop) {
  return bandwidths_known(hardware) ? traffic_per_flop : 0;
}

double times_as_fast(const GpuType& type, const GpuType& than, double traffic_per_flop) {
  if (type.memory_bandwidth <= 0 || than.memory_bandwidth <= 0) traffic_per_flop = 0;
  return flop_rate(type, traffic_per_flop) / flop_rate(than, traffic_per_flop);
}

}  // namespace espalier
