// What Arena knows of a job before it starts (§3.2-3.4): the fastest proxy plan of its grids on each
// GPU type and number of GPUs.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "planner/core/grid/grid.hpp"
#include "planner/sim/policies/gpu_pools.hpp"
#include "planner/sim/policy.hpp"

namespace espalier::sim {

class ArenaSpeeds {
 public:
  // `most_gpus`: powers of two up to it are looked at. `kind` must outlive this object.
  ArenaSpeeds(const SimulatedView& view, const std::vector<GpuPool>& pools, const JobCoefficients& coefficients,
              const JobKind& kind, int most_gpus);
  bool is_for(const JobCoefficients& coefficients, const JobKind& kind) const {
    return &kind == &kind_ && coefficients == coefficients_;
  }
  // Samples per second by pool and binary logarithm of the GPUs; 0: impossible.
  const std::vector<std::vector<double>>& throughput() const { return throughput_; }
  // The plan on these pieces of one type: that of a grid's proxy that is the fastest there. nullopt:
  // none fits.
  std::optional<PlanSketch> sketch(const std::vector<Piece>& pieces);

 private:
  void look(const SimulatedView& view, const std::vector<GpuPool>& pools, int most_gpus);

  const std::shared_ptr<const Site> site_;
  const JobCoefficients coefficients_;
  const JobKind& kind_;
  PlanBounds bounds_;
  std::unique_ptr<Evaluator> evaluator_;
  std::vector<std::vector<double>> throughput_;
  std::map<std::pair<int, int>, std::vector<Proxy>> proxies_;  // by GPU type and GPUs
};

}  // namespace espalier::sim
