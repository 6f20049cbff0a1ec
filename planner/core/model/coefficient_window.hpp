// Decides when a job's coefficients are reliable, and combines them over several generations (Suika
// §3.1: reconfiguration waits until the coefficients fluctuate by at most 2%). A profile that is
// calm by its own statistics (step_statistics.hpp) is enough. Profiles of programs that tell no
// statistics must fill a window and agree with each other.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "planner/core/model/coefficients.hpp"

namespace espalier {

struct WindowLimits {
  int profiles = 8;
  // Limit of (greatest - least) / mean of each coefficient. Exceptions:
  // - 1 / k_overlap: the limit applies to greatest - least itself, because large exponents cannot
  //   be told apart.
  // - The edges' computation: the difference is compared to the model's layers.
  // - Speeds: they may fluctuate more if the plan's iteration time changes by at most this share
  //   between the least and the greatest value. Example: a synchronization of a few ms in a long
  //   step can give any 1 / k_overlap between 0 and 1.
  double fluctuation = 0.02;
};

// Returns the ms of one iteration of the plan that was measured.
using IterationModel = std::function<double(const JobCoefficients&)>;

// The coefficients of one job over its profiles. Not thread-safe.
class CoefficientWindow {
 public:
  explicit CoefficientWindow(WindowLimits limits = {}) : limits_(limits) {}

  // Adds the coefficients of the latest profile. Every call must pass the same GPU types.
  // `iteration` is not kept.
  void add(JobCoefficients coefficients, const IterationModel& iteration);
  // The same for a profile that tells its statistics. `calm`: it is reliable by itself. Of others the mean counts, once
  // there are enough of them for how much their speeds differ: the steps of a job may vary for good, e.g. with the
  // lengths of its sequences.
  void add_told(JobCoefficients coefficients, bool calm);
  // Coefficients of an earlier job like this. They count until this job has measured its own.
  void recall(JobCoefficients known) { settled_ = std::move(known); }
  // Of this job before a restart: what this generation has measured already.
  void restore(JobCoefficients own) {
    settled_ = std::move(own);
    stable_ = true;
  }
  // Call this when another plan starts to run. The new plan must fill a window of its own.
  // Coefficients from earlier stable windows stay known.
  void start_generation() {
    window_.clear();
    stable_ = by_mean_ = false;
  }

  // True: this generation's window is full, and its coefficients fluctuate within the limit; or it
  // has had a calm profile; or the mean of the others is known.
  bool stable() const { return stable_; }
  // Means of the newest stable window. A value that this window only assumes comes from an earlier
  // stable window that measured it. Without a stable window: the latest profile's coefficients.
  // nullopt: no profile yet.
  std::optional<JobCoefficients> coefficients() const;
  // Those of the latest profile alone. nullopt: no profile yet.
  const std::optional<JobCoefficients>& latest() const { return latest_; }

 private:
  bool calm(const IterationModel& iteration) const;
  bool mean_is_known() const;
  JobCoefficients means() const;  // 1 / k_overlap in place of k_overlap

  WindowLimits limits_;
  std::deque<JobCoefficients> window_;  // 1 / k_overlap in place of k_overlap
  bool stable_ = false;
  bool by_mean_ = false;  // of profiles that are not calm
  std::optional<JobCoefficients> settled_, latest_;
};

// Takes each value from `fresh` if it was measured there, else from `known` if it was measured
// there, else from `fresh`.
JobCoefficients refine(const JobCoefficients& known, JobCoefficients fresh);

// refine(), but times and overlaps that were measured in both become means: known + `weight` *
// (fresh - known). Sizes do not vary; those of `fresh` count. k_overlap is averaged as 1 / k.
JobCoefficients blend(const JobCoefficients& known, const JobCoefficients& fresh, double weight);

}  // namespace espalier
