// A job's times if what is assumed of it were as bad as it may be (assumed_range.hpp).
#pragma once

#include <string>

#include "planner/core/plan.hpp"
#include "planner/core/solver/evaluator.hpp"

namespace espalier {

class Pessimist {
 public:
  // `problem`: the job's, with its expected coefficients. Hardware and topology must outlive this
  // object. `present`: the plan that runs. Where it lies on one node, and no sum between nodes was
  // measured, links between nodes may be half as fast as assumed.
  Pessimist(const Problem& problem, const Plan& present);

  // Whether the gain of `next` depends on anything that is only assumed.
  bool doubts(const PlanSketch& next) const;
  // The same, as names for people: "overlap.h100, boundary".
  std::string doubted(const PlanSketch& next) const;

  // In ms. Memory is not checked: the expected coefficients decide what fits.
  double ms(const PlanSketch& sketch) { return evaluator_.exact_sketch(sketch); }
  double ms(const Plan& plan) const;

 private:
  bool doubts_links(const PlanSketch& next) const;

  const bool links_;  // they are in doubt for a plan that uses some
  const JobCoefficients expected_, worst_;
  const Topology& topology_;
  const Hardware hardware_;  // without limits of memory, and with the slower links
  Evaluator evaluator_;
};

}  // namespace espalier
