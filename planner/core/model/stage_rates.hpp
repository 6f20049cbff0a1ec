// One stage of a plan as the performance model sees it, and its times per layer (Suika App. A.2,
// "Modeling TP" and "Modeling DP"). All times of a stage are affine in its layer count. A search
// therefore computes rates once per stage and micro-batch size, and then scores layer splits with
// additions.
#pragma once

#include <array>
#include <cstdint>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"

namespace espalier {

// Equivalent replicas of a stage: same GPU type, same kind of node.
struct ReplicaClass {
  std::int16_t type = 0;
  std::int16_t kind = 0;
  std::int32_t replicas = 0;
  bool operator==(const ReplicaClass&) const = default;
};

// A stage's GPUs, without their names. Classes are sorted by (type, kind).
struct StageShape {
  static constexpr int kMaxClasses = 6;
  std::array<ReplicaClass, kMaxClasses> classes{};
  std::int32_t class_count = 0;
  std::int32_t tp = 1;
  std::int32_t replicas = 0;       // DP degree
  std::int32_t least_members = 0;  // fewest replicas on any of its nodes
  std::int32_t level = 0;          // 0: one node; 1: one leaf switch; 2: one switch above; ...
  bool leads = false;              // holds GPUs on PlanBounds::lead_node
  bool operator==(const StageShape&) const = default;
};

// Samples of one micro-batch that the replicas of each class get, balanced (App. B, Load-Balance).
// All shares are >= 1. `most[c]` is the largest share in class c. `more[c]` replicas have it; the
// others have one sample less. feasible: B >= DP.
struct Shares {
  std::array<std::int32_t, StageShape::kMaxClasses> most{};
  std::array<std::int32_t, StageShape::kMaxClasses> more{};
  bool feasible = false;
};

// Milliseconds per layer, for one micro-batch (fwd, bwd) or one iteration (optim, gradient).
struct StageRates {
  double fwd = 0, bwd = 0;  // computation + TP communication of the slowest replica
  // The computation in fwd and bwd. An edge costs this much for each of its compute_layers.
  double comp_fwd = 0, comp_bwd = 0;
  double optim = 0;                 // and what JobCoefficients::sync_beyond says
  double gradient_ms_per_byte = 0;  // DP synchronization, per byte of the stage's gradients (all TP ranks)
  double overlap = 1;               // k_overlap of the slowest replica's type
  // Synchronization + optimizer of a layer of a stage without an edge. NaN: not computed
  // (stage_extra). With sums_by_unit the optimizer alone, since what is exposed is not so much for each layer.
  double extra = 0;
  bool feasible = false;  // false: the micro-batch cannot feed all replicas
};

Shares balance_shares(const Hardware& hardware, const JobCoefficients& job, const StageShape& shape, int micro_batch,
                      bool equal_shares = false);

// For balanced shares. Pure; allocates nothing. `extra` costs as much time as all the rest. With
// `with_extra` false it is NaN.
StageRates stage_rates(const Hardware& hardware, const JobCoefficients& job, const StageShape& shape,
                       const Shares& shares, bool with_extra = true);
double stage_extra(const JobCoefficients& job, const StageRates& rates);

// sync (A.2, with the exponent corrected to 1/k): the part of a gradient synchronization of
// `gradient` ms that a backward pass of `bwd` ms does not hide.
double exposed_sync(double bwd, double gradient, double overlap);

// A stage's gradient synchronization in ms, if its sums took `gradient` ms as all-reduces. `sum`: what the backward
// pass may hide. `gather`: what follows the optimizer; with ZeRO-1 its parameters are gathered.
struct SyncParts {
  double sum = 0, gather = 0;
};
SyncParts sync_parts(const JobCoefficients& job, double gradient);

// The same for the job's method of synchronization: one all-reduce, or ZeRO-1's parts.
double exposed_gradients(const JobCoefficients& job, double bwd, double gradient, double overlap);

}  // namespace espalier
