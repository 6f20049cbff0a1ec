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

// At one N_b. `dp`: of every stage, 0: any. Where the GPUs are too many to count pool by pool, ideal speed-up stands
// in.
class RestBound {
 public:
  // Tables are filled where that takes at most `most_work` steps, each about a hundredth of a label's work.
  RestBound(const Evaluator& evaluator, const GpuStates& states, int choice, int dp, double most_work);

  RestNeed need(int state) const { return needs_.empty() ? ideal(states_.rest(state)) : needs_[states_.pool(state)]; }
  // The first stage's optimizer and exposed synchronization, at least.
  double least_extra() const { return least_extra_; }
  double work() const { return work_; }

 private:
  // A stage of exactly the GPUs of one pool.
  struct Demand {
    std::size_t pool = 0;
    double cost = 0;
    int cap = 0;  // layers
  };
  RestNeed ideal(std::span<const std::int16_t> gpus) const;
  void fill_costs(const Evaluator& evaluator, int dp);
  void fill_slowest();
  int grains(std::size_t pool, std::size_t c) const {
    const auto& strides = states_.strides();
    return static_cast<int>((c + 1 < strides.size() ? pool % strides[c + 1] : pool) / strides[c]);
  }
  bool contains(std::size_t pool, std::size_t part) const;

  const GpuStates& states_;
  const int choice_, layers_;
  int micro_batch_ = 1;
  bool recompute_ = false;
  std::vector<GpuCoefficients> gpu_;  // of each class
  std::vector<RestNeed> needs_;       // by pool
  std::vector<Demand> demands_;       // by pool, rising
  std::vector<double> slowest_;       // by pool, then layers 0..L
  double least_extra_ = 0;
  double work_ = 0;
};

}  // namespace espalier
