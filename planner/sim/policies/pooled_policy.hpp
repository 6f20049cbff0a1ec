// The common part of the published schedulers that share out pools of GPUs.
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
  // How many GPUs of which pool every job of the view shall have. `held`: the GPUs that each job
  // has.
  virtual std::vector<Wanted> share_out(const SimulatedView& view, const std::vector<HeldGpus>& held) = 0;
  // A job's plan on its GPUs. By default: replicas around the submitted pipeline.
  virtual std::optional<PlanSketch> plan_on(const SimulatedJobState& job, const std::vector<Piece>& pieces);

  SpeedBook book_;
};

}  // namespace espalier::sim
