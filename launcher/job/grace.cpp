#include "launcher/job/grace.hpp"

#include <algorithm>
#include <cmath>

namespace espalier::launcher {
namespace {
constexpr int kBoundaryMargin = 5;  // seconds, added to three steps
}  // namespace

std::optional<double> grace_seconds(const SlurmSite& site, const std::string& partition) {
  std::optional<double> least;
  const auto at = site.grace_seconds.find(partition);
  for (const int seconds : {at == site.grace_seconds.end() ? 0 : at->second, site.kill_wait_seconds})
    if (seconds > 0) least = std::min<double>(seconds, least.value_or(seconds));
  return least;
}

MeasuredPhases measured_phases(const std::map<std::string, double>& phases_ms, bool sent_early) {
  const auto seconds = [&](const char* phase) {
    const auto found = phases_ms.find(phase);
    return found == phases_ms.end() ? 0.0 : found->second / 1000;
  };
  const double early = seconds("load_early");
  return {seconds("start") - early, 0, seconds("load") + (sent_early ? early : 0), seconds("stand")};
}

double early_seconds(double step_seconds, int start_seconds, bool gives_back) {
  return gives_back ? 0 : std::min(2 * step_seconds, start_seconds / 4.0);
}

double predicted_seconds(const MeasuredPhases& measured) {
  return measured.start + measured.step + measured.stand + measured.load;
}

int boundary_seconds(int switch_seconds, int hang_seconds, double step_seconds, HandoffMethod method) {
  const int steps = static_cast<int>(std::lround(3 * step_seconds)) + kBoundaryMargin;
  return std::max({switch_seconds, steps, through_disk(method) ? hang_seconds : 0});
}

int worker_patience(const wire::Config& config) {
  // early_seconds() adds half of start_seconds at most.
  const std::int64_t start = 2 * std::int64_t{config.start_seconds};
  const std::int64_t boundary = boundary_seconds(config.switch_seconds, config.hang_seconds,
                                                 std::min(config.hang_seconds, 10 * 86400), HandoffMethod::checkpoint);
  return static_cast<int>(std::clamp<std::int64_t>(start + boundary + 60, 600, 30 * 86400));
}

}  // namespace espalier::launcher
