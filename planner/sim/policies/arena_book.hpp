// What Arena knows of a job before it starts (§3.2-3.4): the fastest proxy plan of its grids on each
// GPU type and number of GPUs.
#pragma once

#include <vector>

#include "planner/core/schedule/arena/proxy_book.hpp"
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
  // Where the job fits on none of the counts in this pool: larger ones, up to the first on which it does.
  void look_further(const SimulatedView& view, std::size_t pool);
  // Where no proxy plan of any count fits in this pool either: the planner's own search, as policy `arena` of the
  // daemon has it (schedule/arena/arena_growth.cpp).
  void search(const SimulatedView& view, std::size_t pool);
  // The plan on these pieces of one type: that of a grid's proxy that is the fastest there, or after search() what that
  // finds. nullopt: none fits.
  std::optional<PlanSketch> sketch(const SimulatedView& view, const std::vector<Piece>& pieces);

 private:
  int next(std::size_t pool) const { return 1 << throughput_[pool].size(); }
  bool add_next(const SimulatedView& view, std::size_t pool);  // false: the pool has no more GPUs
  std::optional<PlanSketch> found_on(const std::vector<Piece>& pieces);

  const JobCoefficients coefficients_;
  const JobKind& kind_;
  ProxyBook book_;
  std::vector<std::vector<double>> throughput_;
  const std::vector<GpuPool> pools_;
  bool searches_ = false;
};

}  // namespace espalier::sim
