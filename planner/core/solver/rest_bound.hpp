// What the rest of a plan costs at least, given the GPUs and layers that are left: bounds for the Pareto dynamic
// programme, blind to which node a GPU is on.
#pragma once

#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/gpu_states.hpp"

namespace espalier {

// Of one state. ms; t = fwd + bwd of a stage and micro-batch.
struct RestNeed {
  double cost = kInfeasible;      // a layer's least t
  double forward = kInfeasible;   // a layer's least fwd
  double backward = 0;            // a layer's least bwd
  const double* table = nullptr;  // by layers left
  // At least one of the stages that hold `layers` layers has this t.
  double slowest(int layers) const { return table != nullptr ? table[layers] : layers * cost; }
};

// At one N_b. `dp`: of every stage, 0: any. Few GPUs are counted exactly, class by class; for many classes of many GPUs
// the bound of ideal speed-up stands in.
class RestBound {
 public:
  RestBound(const Evaluator& evaluator, const GpuStates& states, int choice, int dp);

  RestNeed need(int state) const;
  // The first stage's optimizer and exposed synchronization.
  double least_extra() const { return least_extra_; }

 private:
  // A stage of exactly the GPUs of one pool.
  struct Demand {
    std::size_t pool = 0;
    double cost = 0;
    int cap = 0;  // layers
  };
  void fill_costs(const Evaluator& evaluator, int dp);
  void fill_slowest();
  int grains(std::size_t pool, std::size_t c) const {
    return static_cast<int>(pool / strides_[c] % (c + 1 < strides_.size() ? strides_[c + 1] / strides_[c] : pools_));
  }
  bool contains(std::size_t pool, std::size_t part) const;

  const GpuStates& states_;
  const int choice_, layers_;
  int micro_batch_ = 1;
  bool recompute_ = false;
  std::vector<GpuCoefficients> gpu_;  // of each class
  // A pool is a number of grains of every class. Empty vectors: too many pools.
  std::vector<std::size_t> strides_;
  std::size_t pools_ = 1;
  std::vector<RestNeed> needs_;
  std::vector<Demand> demands_;  // by pool, rising
  std::vector<double> slowest_;  // by pool, then layers 0..L
  double least_extra_ = 0;
};

}  // namespace espalier
