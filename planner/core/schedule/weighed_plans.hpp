// The plans that the plan of generation 0 is chosen from: whether each fits into the GPUs' memory, how long its
// iterations take, and which is the best. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/schedule/first_plan.hpp"

namespace espalier {

class WeighedPlans {
 public:
  struct Fitting {
    Plan plan;
    double ms = 0;  // predicted iteration time
  };
  // All references outlive this object.
  WeighedPlans(const ElasticJob& job, const Site& site, const JobCoefficients& coefficients)
      : job_(job), site_(site), coefficients_(coefficients), memory_(coefficients) {}

  // Begins anew. Without `activations` a plan fits if its parameters and optimizer state do.
  void begin(bool activations);
  // Takes `plan`, if it is valid and fits.
  void weigh(const Plan& plan);
  bool none_fits() const { return fitting_.empty(); }
  // For plans that count only if no others fit.
  std::vector<Fitting> set_aside() { return std::exchange(fitting_, {}); }
  void put_back(std::vector<Fitting> plans) { fitting_ = std::move(plans); }

  // The fastest of those that fit; without activations the one that needs the least memory with them, and a remark.
  // Ties: the first that was weighed. At least one fits.
  FirstPlan best();
  // What the plan that comes nearest to fitting needs, for an error. Empty: no valid plan was weighed since the object
  // was made.
  std::string why_too_large() const;

 private:
  double fill_of(const Plan& plan) const;

  const ElasticJob& job_;
  const Site& site_;
  const JobCoefficients& coefficients_;
  JobCoefficients memory_;  // what decides whether a plan fits
  bool activations_ = true;
  std::vector<Fitting> fitting_;
  std::int64_t looks_ = 0;
  double least_fill_ = -1, least_peak_ = 0, capacity_ = 0;
};

}  // namespace espalier
