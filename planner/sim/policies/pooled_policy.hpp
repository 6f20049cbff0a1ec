// What the published schedulers that share out pools of GPUs do before and after it.
#pragma once

#include <optional>
#include <vector>

#include "planner/sim/policies/reallocation.hpp"
#include "planner/sim/policies/speed_book.hpp"

namespace espalier::sim {

class PooledPolicy : public Policy {
 public:
  bool owns_queue() const override { return true; }
  std::vector<Act> decide(const SimulatedView& view) override;

 protected:
  // How many GPUs of which pool every job of the view is to have; `held`: what it has.
  virtual std::vector<Wanted> share_out(const SimulatedView& view, const std::vector<HeldGpus>& held) = 0;
  // A job's plan on GPUs that it is given: replicas around the submitted pipeline, unless a policy knows better.
  virtual std::optional<PlanSketch> plan_on(const SimulatedJobState& job, const std::vector<Piece>& pieces);

  SpeedBook book_;
};

}  // namespace espalier::sim
