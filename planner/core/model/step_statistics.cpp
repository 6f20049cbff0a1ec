#include "planner/core/model/step_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace espalier {
namespace {

// The probability that the interval may miss the median on one side.
constexpr double kMissed = 0.0625;

// How many of `count` sorted values lie outside the interval on each side.
std::size_t outside(std::size_t count) {
  double probability = std::pow(0.5, static_cast<double>(count));  // of exactly `k` values below the median
  double missed = probability;
  std::size_t k = 0;
  while (k + 1 < count / 2) {
    probability *= static_cast<double>(count - k) / static_cast<double>(k + 1);
    if (missed + probability > kMissed) break;
    missed += probability;
    ++k;
  }
  return k;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double spread_of(const std::vector<double>& work) {
  const double middle = median(work);
  if (work.size() < static_cast<std::size_t>(kLeastSteps) || !(middle > 0) || !std::isfinite(middle))
    return std::numeric_limits<double>::infinity();
  std::vector<double> sorted = work;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t cut = outside(sorted.size());
  const double width = sorted[sorted.size() - 1 - cut] - sorted[cut];
  const auto half = work.begin() + static_cast<std::ptrdiff_t>(work.size() / 2);
  const double drift = std::abs(median({half, work.end()}) - median({work.begin(), half}));
  return std::max(width, drift) / 2 / middle;
}

bool tells_statistics(const Profile& profile) {
  return profile.steps > 0 && std::all_of(profile.replicas.begin(), profile.replicas.end(),
                                          [](const ReplicaProfile& one) { return one.spread.has_value(); });
}

double spread_of(const Profile& profile) {
  double most = 0;
  for (const ReplicaProfile& one : profile.replicas) most = std::max(most, one.spread.value_or(0));
  return most;
}

bool calm(const Profile& profile) {
  return tells_statistics(profile) && !profile.replicas.empty() && profile.steps >= kLeastSteps &&
         spread_of(profile) <= kCalmSpread;
}

}  // namespace espalier
