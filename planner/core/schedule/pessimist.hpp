// A job's times if what is assumed of it were as bad as it may be (assumed_range.hpp).
#pragma once

#include <string>

#include "planner/core/plan.hpp"
#include "planner/core/schedule/searched_placement.hpp"
#include "planner/core/solver/evaluator.hpp"

namespace espalier {

class Pessimist {
 public:
  // `problem`: the job's, with its expected coefficients. Hardware and topology must outlive this
  // object.
  explicit Pessimist(const Problem& problem);

  // Whether the gain of `next` depends on anything that is only assumed.
  bool doubts(const PlanSketch& next) const;
  // The same, as names for people: "overlap.h100, boundary".
  std::string doubted(const PlanSketch& next) const;

  // In ms. Memory is not checked: the expected coefficients decide what fits.
  double ms(const PlanSketch& sketch) { return evaluator_.exact_sketch(sketch); }
  double ms(const Plan& plan) const;
  // With lists that are searched for it in the memory that there is (searched_placement.hpp).
  PlacementReach reach(const Plan& plan) const;

 private:
  const JobCoefficients expected_, worst_;
  const Topology& topology_;
  const Hardware& given_;
  const Hardware hardware_;  // without limits of memory
  Evaluator evaluator_;
};

}  // namespace espalier
