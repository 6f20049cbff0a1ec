// What the rest of a plan costs at least, given the GPUs and layers that are left: bounds for the Pareto dynamic
// programme, blind to which node a GPU is on.
#pragma once

#include <span>
#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/gpu_states.hpp"

namespace espalier {

// Of one state. ms; t = fwd + bwd of a stage and micro-batch.
struct RestNeed {
  double cost = kInfeasible;      // a layer's least t
  double forward = kInfeasible;   // a layer's least fwd
  double backward = kInfeasible;  // a layer's least bwd
  double share = kInfeasible;     // the least t of the slowest stage, per layer
  const double* table = nullptr;  // the same by layers left, where known
  double slowest(int layers) const { return table != nullptr ? table[layers] : layers * share; }
};

// At one N_b. `dp`: of every stage, 0: any. Begins with what ideal speed-up would need; pools and then tables come at a
// price, in the labels that cost as much.
class RestBound {
 public:
  RestBound(const Evaluator& evaluator, const GpuStates& states, int choice, int dp);

  // What every pool can do as one stage. Nothing happens if it may cost more than `most`. Returns what it cost.
  long count_pools(long most);
  // After it: RestNeed::table, what every pool can do in several stages.
  long fill_tables(long most);

  RestNeed need(int state) const { return needs_.empty() ? ideal(states_.rest(state)) : needs_[states_.pool(state)]; }
  // The first stage's optimizer and exposed synchronization, at least.
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
  std::vector<Demand> demands_;       // by pool, rising
  std::vector<double> slowest_;       // by pool, then layers 0..L
  double least_extra_ = 0;
};

}  // namespace espalier
