#include "planner/sim/policies/pooled_policy.hpp"

namespace espalier::sim {

std::vector<Act> PooledPolicy::decide(const SimulatedView& view) {
  book_.turn_to(view);
  const auto held = held_in_pools(view, book_.pools());
  return reallocate(
      view, book_.pools(), held, share_out(view, held),
      [this](const SimulatedJobState& job, const std::vector<Piece>& pieces) { return plan_on(job, pieces); });
}

std::optional<PlanSketch> PooledPolicy::plan_on(const SimulatedJobState& job, const std::vector<Piece>& pieces) {
  return book_.of(job).sketch(pieces);
}

}  // namespace espalier::sim
