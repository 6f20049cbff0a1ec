#include "torchrt/c/step_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/core/model/step_statistics.hpp"

namespace espalier::torchrt {
namespace {

enum Place : std::size_t { kCompute, kSync, kRest, kSteps, kSpread, kPeak };
constexpr double kUnknownSpread = 1;

}  // namespace

void StepTimes::ended(double now, double seconds) {
  ++steps_;
  const auto computed = std::exchange(computed_, std::nullopt), summed = std::exchange(summed_, std::nullopt);
  const double compute = computed ? *computed - (now - seconds) : -1;
  if (!(seconds > 0) || !(compute >= 0)) return;
  const double until = summed && *summed >= *computed ? *summed : *computed;
  compute_.push_back(compute * 1000);
  if (summed) sync_.push_back((until - *computed) * 1000);
  rest_.push_back(std::max(0.0, now - until) * 1000);
}

std::array<double, StepTimes::kTold> StepTimes::take(double peak_bytes) {
  std::array<double, kTold> told{};
  if (compute_.size() < static_cast<std::size_t>(kLeastSteps)) return told;
  const bool has_sync = sync_.size() == compute_.size();
  std::vector<double> work;
  for (std::size_t i = 0; i < compute_.size(); ++i) work.push_back(compute_[i] + rest_[i] + (has_sync ? sync_[i] : 0));
  const double spread = spread_of(work);
  told[kCompute] = median(compute_);
  told[kSync] = has_sync ? median(sync_) : -1;
  told[kRest] = median(rest_);
  told[kSteps] = static_cast<double>(work.size());
  told[kSpread] = std::isfinite(spread) ? spread : kUnknownSpread;
  told[kPeak] = peak_bytes;
  compute_.clear();
  sync_.clear();
  rest_.clear();
  return told;
}

std::optional<FlatProfile> flat_profile(std::span<const double> told, int unit, std::int64_t step) {
  FlatProfile profile;
  profile.step = step;
  profile.sync_ms = std::numeric_limits<double>::infinity();
  const std::size_t of_replica = StepTimes::kTold * static_cast<std::size_t>(unit);
  for (; told.size() >= of_replica; told = told.subspan(of_replica)) {
    double compute = 0;
    bool measured = false;
    for (std::size_t at = 0; at < of_replica; at += StepTimes::kTold) {
      const std::span<const double> one = told.subspan(at, StepTimes::kTold);
      profile.peak_bytes = std::max(profile.peak_bytes, one[kPeak]);
      if (one[kSteps] < 1) continue;
      if (profile.steps == 0) {
        profile.steps = static_cast<int>(one[kSteps]);
        profile.spread = one[kSpread];
      }
      measured = true;
      compute = std::max(compute, one[kCompute]);
      profile.rest_ms = std::max(profile.rest_ms, one[kRest]);
      profile.sync_ms = std::min(*profile.sync_ms, one[kSync]);
    }
    if (!measured) return std::nullopt;
    profile.compute_ms.push_back(std::max(compute, 1e-6));
  }
  if (profile.compute_ms.size() < 2 || *profile.sync_ms < 0) profile.sync_ms.reset();
  return profile;
}

}  // namespace espalier::torchrt
