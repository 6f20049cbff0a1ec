#include "planner/core/schedule/player.hpp"

#include <algorithm>
#include <limits>

namespace espalier {

double remaining_seconds(const ElasticJob& job) {
  if (job.total_steps <= 0 || job.step_seconds <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(std::max<std::int64_t>(0, job.total_steps - job.step)) * job.step_seconds;
}

Decision decision_for(const PlanningInput& input, const ElasticJob& job, DecisionKind kind) {
  Decision d;
  d.time = input.now;
  d.trigger = input.trigger;
  d.kind = kind;
  d.job = job.id;
  return d;
}

}  // namespace espalier
