// Lower bounds of the cost of the rest of a plan, given the GPUs and layers left, for the Pareto
// dynamic programme. They ignore which node a GPU is on.
#pragma once

#include <span>
#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/gpu_states.hpp"

namespace espalier {

// Bounds of one state, in ms. t = fwd + bwd of a stage and micro-batch.
struct RestNeed {
  double cost = kInfeasible;      // least t of a layer
  double forward = kInfeasible;   // least fwd of a layer
  double backward = kInfeasible;  // least bwd of a layer
  double share = kInfeasible;     // least t of the slowest stage, per layer
  const double* table = nullptr;  // least t of the slowest stage by layers left; null: unknown
  double slowest(int layers) const { return table != nullptr ? table[layers] : layers * share; }
};

// Bounds at one N_b. `dp`: DP degree of every stage; 0: any. The first bounds assume ideal
// speed-up. Pools and then tables improve them at a cost, counted in labels.
class RestBound {
 public:
  RestBound(const Evaluator& evaluator, const GpuStates& states, int choice, int dp);

  // Computes the cost of every pool as one stage. Does nothing if that may cost more than `most`.
  // Returns the cost.
  long count_pools(long most);
  // Call after count_pools(). Fills RestNeed::table with the cost of every pool as several stages.
  // `most` and the result are as above.
  long fill_tables(long most);

  RestNeed need(int state) const { return needs_.empty() ? ideal(states_.rest(state)) : needs_[states_.pool(state)]; }
  // Lower bound of the first stage's optimizer plus exposed synchronization.
  double least_extra() const { return least_extra_; }

 private:
  // A stage of exactly the GPUs of one pool.
  struct Demand {
    std::size_t pool = 0;
    double cost = 0;
    int cap = 0;  // layers
  };
  RestNeed ideal(std::span<const std::int16_t> gpus) const;
  void add_demand(std::size_t pool, std::span<const std::int16_t> gpus, int tp);
  int grains(std::size_t pool, std::size_t c) const {
    const auto& strides = states_.strides();
    return static_cast<int>((c + 1 < strides.size() ? pool % strides[c + 1] : pool) / strides[c]);
  }
  bool contains(std::size_t pool, std::size_t part) const;

  const Problem& problem_;
  const GpuStates& states_;
  const int dp_, layers_, micro_batches_, micro_batch_;
  std::vector<GpuCoefficients> gpu_;  // of each class
  std::vector<RestNeed> needs_;       // by pool
  std::vector<Demand> demands_;       // by pool, ascending
  std::vector<double> slowest_;       // by pool, then layers 0..L
  double least_extra_ = 0;
};

}  // namespace espalier
