// What the steps of a program on the C interface take: measured on each process between the marks that the program
// sets, summed over all processes by the program's own sum, and told to the planner as a flat profile. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/flat_profile.hpp"

namespace espalier::torchrt {

// Of one process. Moments are seconds of any clock that is never set back.
class StepTimes {
 public:
  static constexpr std::size_t kTold = 6;

  void computed(double now) { computed_ = now; }
  void summed(double now) { summed_ = now; }
  // A step that took `seconds` has ended. It counts if it was marked at least as computed.
  void ended(double now, double seconds);

  // Whether a profile is due after the step that has ended. The same on all processes, whatever they have measured,
  // so that all of them sum then.
  bool due() const { return steps_ == 6 || steps_ == 12 || (steps_ > 0 && steps_ % 25 == 0); }
  // For a profile: medians of compute, sync (-1: not measured) and rest in ms, their number of steps, how well they are
  // known (step_statistics.hpp), and `peak_bytes`. Steps of 0: too few are measured. What is told is then forgotten.
  std::array<double, kTold> take(double peak_bytes);

 private:
  std::optional<double> computed_, summed_;
  std::int64_t steps_ = 0;
  std::vector<double> compute_, sync_, rest_;  // ms
};

// The profile from what all processes have told, by rank. A replica, `unit` neighbouring ranks, is as slow as its
// slowest process and has waited as long as the one that waited least. None: nobody of some replica has measured
// enough.
std::optional<FlatProfile> flat_profile(std::span<const double> told, int unit, std::int64_t step);

}  // namespace espalier::torchrt
