#include "launcher/grace.hpp"

#include <algorithm>

namespace espalier::launcher {

std::optional<double> grace_seconds(const SlurmSite& site, const std::string& partition) {
  std::optional<double> least;
  const auto at = site.grace_seconds.find(partition);
  for (const int seconds : {at == site.grace_seconds.end() ? 0 : at->second, site.kill_wait_seconds})
    if (seconds > 0) least = std::min<double>(seconds, least.value_or(seconds));
  return least;
}

double predicted_seconds(const MeasuredPhases& measured) { return measured.start + measured.step + measured.load; }

}  // namespace espalier::launcher
