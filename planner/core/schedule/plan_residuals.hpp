// What measured plans of a job tell of those that are not measured. The model's step times are wrong in ways that plans
// share: of a GPU that uses narrow shards badly each doubling of the TP degree costs some percent, whatever the rest of
// the plan is. The residuals' logarithms are taken as linear in the logarithms of TP degree, stages and micro-batch
// length, by Bayesian linear regression (Bishop 2006, section 3.3) with priors that expect small effects. Pure.
#pragma once

#include <array>
#include <cstddef>

#include "planner/core/plan.hpp"

namespace espalier {

class PlanResiduals {
 public:
  PlanResiduals();
  // `plan` took `measured` seconds a step, and the model says `predicted` seconds.
  void add(const Plan& plan, double predicted, double measured);

  struct Estimate {
    double seconds = 0;  // of a step: the model's time, corrected
    double spread = 0;   // standard deviation of its logarithm
    // A step time that is still likely: one standard deviation shorter.
    double hopeful() const;
  };
  // Of a plan that is not measured. At least one has been added.
  Estimate of(const Plan& plan, double predicted) const;

 private:
  static constexpr std::size_t kSize = 4;
  using Vector = std::array<double, kSize>;
  static Vector features(const Plan& plan);
  std::array<Vector, kSize> precision_{};  // of the posterior
  Vector moment_{};                        // precision times mean
};

}  // namespace espalier
