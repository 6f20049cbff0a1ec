// When a job's coefficients may be relied on, and what they are after several generations (Suika §3.1: reconfiguration
// waits until they fluctuate by at most 2%).
#pragma once

#include <deque>
#include <optional>

#include "planner/core/model/coefficients.hpp"

namespace espalier {

struct WindowLimits {
  int profiles = 8;
  // (greatest - least) / mean of each coefficient. Of 1 / k_overlap the difference itself, since large exponents cannot
  // be told apart; of the edges' computation the difference in proportion to the model's layers.
  double fluctuation = 0.02;
};

// The coefficients of one job over its profiles. Not thread-safe.
class CoefficientWindow {
 public:
  explicit CoefficientWindow(WindowLimits limits = {}) : limits_(limits) {}

  // The coefficients of the latest profile; the same GPU types every time.
  void add(JobCoefficients coefficients);
  // Another plan runs from now on: it must fill a window of its own. What earlier ones settled stays known.
  void start_generation() { window_.clear(); }

  // This generation's window is full and calm.
  bool stable() const;
  // Means of the newest stable window; what it only assumes is taken from earlier stable windows that measured it.
  // Without a stable window so far: the latest profile's. Nothing: no profile yet.
  std::optional<JobCoefficients> coefficients() const;

 private:
  JobCoefficients means() const;

  WindowLimits limits_;
  std::deque<JobCoefficients> window_;
  std::optional<JobCoefficients> settled_, latest_;
};

// `fresh` where it was measured, else `known` where that was; what both assume is `fresh`'s.
JobCoefficients refine(const JobCoefficients& known, JobCoefficients fresh);

}  // namespace espalier
