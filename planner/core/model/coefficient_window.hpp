// When a job's coefficients may be relied on, and what they are after several generations (Suika §3.1: reconfiguration
// waits until they fluctuate by at most 2%).
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "planner/core/model/coefficients.hpp"

namespace espalier {

struct WindowLimits {
  int profiles = 8;
  // (greatest - least) / mean of each coefficient. Of 1 / k_overlap the difference itself, since large exponents cannot
  // be told apart; of the edges' computation the difference in proportion to the model's layers. Speeds may fluctuate
  // more when the plan's iteration, with the greatest instead of the least, changes by no more than this share of it:
  // of a synchronization of a few ms in a long step 1 / k_overlap is anything between 0 and 1.
  double fluctuation = 0.02;
};

// ms of one iteration of the plan that is measured.
using IterationModel = std::function<double(const JobCoefficients&)>;

// The coefficients of one job over its profiles. Not thread-safe.
class CoefficientWindow {
 public:
  explicit CoefficientWindow(WindowLimits limits = {}) : limits_(limits) {}

  // The coefficients of the latest profile; the same GPU types every time. `iteration` is not kept.
  void add(JobCoefficients coefficients, const IterationModel& iteration);
  // Another plan runs from now on: it must fill a window of its own. What earlier ones settled stays known.
  void start_generation() {
    window_.clear();
    stable_ = false;
  }

  // This generation's window is full and calm.
  bool stable() const { return stable_; }
  // Means of the newest stable window; what it only assumes is taken from earlier stable windows that measured it.
  // Without a stable window so far: the latest profile's. Nothing: no profile yet.
  std::optional<JobCoefficients> coefficients() const;

 private:
  bool calm(const IterationModel& iteration) const;
  JobCoefficients means() const;  // likewise with 1 / k_overlap

  WindowLimits limits_;
  std::deque<JobCoefficients> window_;  // with 1 / k_overlap in place of k_overlap
  bool stable_ = false;
  std::optional<JobCoefficients> settled_, latest_;
};

// `fresh` where it was measured, else `known` where that was; what both assume is `fresh`'s.
JobCoefficients refine(const JobCoefficients& known, JobCoefficients fresh);

}  // namespace espalier
