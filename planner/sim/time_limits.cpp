#include "planner/sim/time_limits.hpp"

#include <algorithm>
#include <cmath>

#include "planner/sim/random.hpp"

namespace espalier::sim {
namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
constexpr double kLeastShare = 0.1;

double alone_seconds(const SimulatedJob& job, const JobKind& kind) {
  double step = kind.step_seconds;
  for (const BasicPlan& at : kind.on)
    if (job.type < 0 || at.type == job.type) step = std::max(step, at.step_seconds);
  return job.iterations * step;
}

}  // namespace

double rounded_limit(double seconds) {
  for (const double limit : {5 * kMinute, 10 * kMinute, 15 * kMinute, 30 * kMinute, kHour, 2 * kHour, 3 * kHour,
                             4 * kHour, 6 * kHour, 8 * kHour, 12 * kHour, 18 * kHour})
    if (seconds <= limit) return limit;
  return std::ceil(seconds / kDay) * kDay;
}

void set_time_limits(std::vector<SimulatedJob>& jobs, const std::vector<JobKind>& kinds,
                     const std::vector<double>& traced, std::uint64_t seed) {
  Random random(seed + 0xa54ff53a5f1d36f1ULL);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double share = kLeastShare + (1 - kLeastShare) * random.real();
    const double alone = alone_seconds(jobs[i], kinds[jobs[i].kind]);
    jobs[i].time_limit = traced[i] > 0 ? alone * std::max(1.0, traced[i]) : rounded_limit(alone / share);
  }
}

}  // namespace espalier::sim
