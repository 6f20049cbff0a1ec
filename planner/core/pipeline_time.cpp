#include "planner/core/pipeline_time.hpp"

#include <algorithm>

namespace espalier {

double relative_step_time(const Plan& plan) {
  double slowest = 0;
  for (const Stage& stage : plan.stages) {
    int share = 0;
    for (const Replica& replica : stage.replicas) share = std::max(share, replica.share);
    slowest = std::max(slowest, static_cast<double>(stage.layers) * share / std::max(1, stage.tp));
  }
  return (plan.micro_batches + static_cast<double>(plan.stages.size()) - 1) * slowest;
}

double predict_step_seconds(double measured, const Plan& present, const Plan& next) {
  const double now = relative_step_time(present);
  return now > 0 ? measured * relative_step_time(next) / now : 0;
}

double marginal_benefit(int present_gpus, int extra_gpus, double present_seconds, double next_seconds) {
  if (extra_gpus <= 0 || next_seconds <= 0) return 0;
  return static_cast<double>(present_gpus) / extra_gpus * (present_seconds / next_seconds - 1);
}

}  // namespace espalier
