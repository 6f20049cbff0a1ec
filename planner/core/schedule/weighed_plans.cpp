#include "planner/core/schedule/weighed_plans.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "planner/core/model/evaluate_plan.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostCandidates = 6;

double gigabytes(double bytes) { return bytes / 1e9; }

}  // namespace

void WeighedPlans::begin(bool activations) {
  fitting_.clear();
  activations_ = activations;
  memory_ = coefficients_;
  if (activations) return;
  memory_.activ_p_bytes = memory_.activ_np_bytes = memory_.activ_bytes = 0;
  memory_.first.activation_bytes = memory_.last.activation_bytes = 0;
}

void WeighedPlans::weigh(const Plan& plan) {
  ++looks_;
  if (!validate(plan, job_.model.layers).empty()) return;
  const Prediction with = evaluate_plan(site_.hardware, site_.topology, memory_, plan);
  double fill = 0;
  for (const StagePrediction& stage : with.stages)
    if (stage.capacity > 0) fill = std::max(fill, stage.memory.peak / stage.capacity);
  if (least_fill_ < 0 || fill < least_fill_) {
    least_fill_ = fill;
    for (const StagePrediction& stage : with.stages)
      if (stage.capacity > 0 && stage.memory.peak / stage.capacity >= fill) {
        least_peak_ = stage.memory.peak;
        capacity_ = stage.capacity;
      }
  }
  if (!with.feasible) return;
  const double ms = memory_ == coefficients_
                        ? with.exact_ms
                        : evaluate_plan(site_.hardware, site_.topology, coefficients_, plan).exact_ms;
  fitting_.push_back({plan, ms});
}

FirstPlan WeighedPlans::best() {
  if (activations_) {
    // Two schedules often take equally long. The last bits of their sums must not choose between them.
    double least = std::numeric_limits<double>::infinity();
    for (const Fitting& one : fitting_) least = std::min(least, one.ms);
    for (Fitting& one : fitting_)
      if (one.ms <= least * (1 + 1e-9)) one.ms = least;
  }
  std::stable_sort(fitting_.begin(), fitting_.end(), [&](const Fitting& a, const Fitting& b) {
    return activations_ ? a.ms < b.ms : fill_of(a.plan) < fill_of(b.plan);
  });
  FirstPlan result{fitting_.front().plan, fitting_.front().ms, {}, {}};
  for (const Fitting& one : fitting_) {
    if (result.candidates.size() == kMostCandidates) break;
    const std::string plan = describe(one.plan);
    if (std::any_of(result.candidates.begin(), result.candidates.end(),
                    [&](const Candidate& known) { return known.plan == plan; }))
      continue;
    char why[80] = "";
    if (!result.candidates.empty())
      std::snprintf(why, sizeof why, activations_ ? "%.2f times the predicted step time" : "needs more memory",
                    one.ms / std::max(fitting_.front().ms, 1e-9));
    result.candidates.push_back({plan, one.plan.gpu_count(), one.ms / 1000, 0, why});
  }
  if (!activations_)
    result.remark =
        "by estimate its activations do not fit into the GPUs' memory; the plan that needs least was chosen";
  return result;
}

// The fullest GPU's need over what a plan may fill, with activations.
double WeighedPlans::fill_of(const Plan& plan) const {
  const Prediction with = evaluate_plan(site_.hardware, site_.topology, coefficients_, plan);
  double fill = 0;
  for (const StagePrediction& stage : with.stages)
    if (stage.capacity > 0) fill = std::max(fill, stage.memory.peak / stage.capacity);
  return fill;
}

std::string WeighedPlans::why_too_large() const {
  if (least_fill_ < 0) return "";
  char text[240];
  std::snprintf(text, sizeof text,
                "parameters and optimizer state need at least %.2f GB on a GPU that has %.2f GB for them; ask for "
                "more GPUs, or set training.zero1 (%lld plans were weighed)",
                gigabytes(least_peak_), gigabytes(capacity_), static_cast<long long>(looks_));
  return text;
}

}  // namespace espalier
