#include "planner/core/schedule/idle_forecast.hpp"

#include <algorithm>
#include <cmath>

namespace espalier {

double IdleForecast::seconds(int gpus) const {
  if (!(rate > 0)) return limits.most_seconds;
  const double others = std::max(0, idle - gpus);
  const double jobs = std::floor(others / std::max(1.0, mean_gpus)) + 1;
  return std::clamp(jobs / rate, limits.least_seconds, limits.most_seconds);
}

std::optional<IdleForecast> idle_forecast(int idle, const Arrivals* arrivals, double now,
                                          const IdleForecastLimits& limits) {
  if (arrivals == nullptr) return std::nullopt;
  const double window = std::min(limits.window_seconds, Arrivals::kMostSeconds);
  const double from = std::max(now - window, arrivals->since());
  if (!(now - from >= std::min(limits.least_known_seconds, window))) return std::nullopt;
  double jobs = 0, gpus = 0;
  const auto& recent = arrivals->recent();
  for (auto one = recent.rbegin(); one != recent.rend() && one->time > from; ++one)
    if (one->time <= now && one->gpus > 0) ++jobs, gpus += one->gpus;
  if (jobs == 0) return IdleForecast{idle, 0, 1, limits};
  return IdleForecast{idle, jobs / (now - from), gpus / jobs, limits};
}

}  // namespace espalier
