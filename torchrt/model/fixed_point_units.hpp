// The arithmetic of fixed_point.hpp for one value, as processors do it. GPUs give the same bits
// (flavour/fixed_point.cu).
#pragma once

#include <cmath>
#include <cstdint>

namespace espalier::torchrt {

inline constexpr double kFixedPointUnits = 0x1p50;

// Rounds half to even. Of a value that is no number, or too large, nothing is said.
inline std::int64_t units_of(float value) { return std::llrint(static_cast<double>(value) * kFixedPointUnits); }
inline float value_of(std::int64_t units) {
  return static_cast<float>(static_cast<double>(units) * (1 / kFixedPointUnits));
}

}  // namespace espalier::torchrt
