#include "planner/core/schedule/benefit.hpp"

#include <algorithm>
#include <cmath>

namespace espalier {

double allocation_size(const Hardware& hardware, std::span<const Piece> pieces) {
  double fastest = 0;
  for (const GpuType& type : hardware.types) fastest = std::max(fastest, type.tflops);
  double size = 0;
  for (const Piece& piece : pieces)
    size += piece.gpus * (fastest > 0 ? hardware.types[static_cast<std::size_t>(piece.type)].tflops / fastest : 1);
  return size;
}

double marginal_benefit(double present_size, double added_size, double present_ms, double next_ms) {
  if (added_size <= 0 || next_ms <= 0) return 0;
  return present_size / added_size * (present_ms / next_ms - 1);
}

double benefit_threshold(double intensity, double lambda) { return std::pow(std::clamp(intensity, 0.0, 1.0), lambda); }

}  // namespace espalier
