// A real plan on its cluster, as the performance model sees it: shapes instead of names. What a search makes from
// counts, this makes from GPUs, with the plan's own layers and shares.
#pragma once

#include <vector>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// What crosses from a stage to the next one for every micro-batch: the most samples that any replica on either side
// exchanges with its own node (near) and with others (far). Replicas own samples in order, so that neighbours with
// different DP degrees re-deal them.
struct Boundary {
  int near_samples = 0;
  int far_samples = 0;
  int level = 0;  // as StageShape::level, of the far samples
  bool operator==(const Boundary&) const = default;
};

struct PlacedStage {
  StageShape shape;
  Shares shares;  // `most`: the largest share that the plan gives to a replica of the class
  int layers = 0;
  int gpus_per_node = 0;  // the most on one node: they share its rails
  Boundary next;          // all zero on the last stage
};

struct PlacedPlan {
  int micro_batches = 1;
  int global_batch = 0;
  std::vector<PlacedStage> stages;
};

// Type and kind of a replica's GPUs; replicas == 1. Throws Error when a GPU is not in the topology or of another type.
ReplicaClass replica_class(const Topology& topology, const Replica& replica);

// Throws Error when the plan is invalid (plan.hpp), a GPU is not in the topology, a replica mixes GPU types, or a stage
// has more classes of replicas than StageShape holds.
PlacedPlan place_plan(const Topology& topology, const Plan& plan);

// The stages' times, `send` included: activations cross a boundary whole, every TP rank over its own rail (Megatron
// without scatter-gather). Throws nothing; `plan` must have come from place_plan() or be as consistent.
std::vector<StageTime> stage_times(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan);

}  // namespace espalier
