#include "planner/core/schedule/urgency.hpp"

#include <algorithm>

namespace espalier {

double urgency(const ElasticJob& job, double now, double slower) {
  constexpr double kMost = 4;
  const double left = job.deadline - now;
  if (job.deadline <= 0 || left <= 0 || job.total_steps <= job.step || job.step_seconds <= 0) return 1;
  const double needed = static_cast<double>(job.total_steps - job.step) * job.step_seconds * slower;
  return std::clamp(needed / left, 1.0, kMost);
}

}  // namespace espalier
