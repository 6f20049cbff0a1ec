// A real plan on its cluster, as the performance model sees it: shapes instead of names. Built from
// the plan's GPUs, layers and shares. (A search builds the same shapes from counts.)
#pragma once

#include <vector>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/model/memory.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// Traffic from a stage to the next stage for every micro-batch: the most samples that any replica
// on either side exchanges with its own node (near) and with other nodes (far). Replicas own
// samples in order, so neighbouring stages with different DP degrees redistribute them.
struct Boundary {
  int near_samples = 0;
  int far_samples = 0;
  int level = 0;  // switch level of the far samples, as StageShape::level
  bool operator==(const Boundary&) const = default;
};

struct PlacedStage {
  StageShape shape;
  Shares shares;  // `most`: the largest share that the plan gives to a replica of the class
  int layers = 0;
  int gpus_per_node = 0;    // the most GPUs on one node; they share its rails
  bool one_machine = true;  // all on one node, though perhaps on several of its islands
  // All zero on the last stage, but for chunks that go round: there it is the boundary to the first stage.
  Boundary next;
};

struct PlacedPlan {
  int micro_batches = 1;
  int global_batch = 0;
  std::vector<PlacedStage> stages;
  PipelineForm form = {};
  std::vector<Chunk> chunks = {};  // of the form; empty: one per stage
  bool in_form = true;             // the chunks lie as the form has them; else it is only what the model takes
  // Between the stages of the embedding and of the head: whether their replicas exchange the gradient of a tied table
  // on a node (near_samples is 1) or between nodes (far_samples is 1). Both are 0 where that is one stage.
  Boundary ends = {};
  // The place of a stage for peak_memory(), with what its own chunks hold.
  StagePosition position(int stage, const JobCoefficients& job) const;
};

// Type and kind of a replica's GPUs; `replicas` of the result is 1. Throws Error when a GPU is not
// in the topology or differs in type from the replica's first GPU.
ReplicaClass replica_class(const Topology& topology, const Replica& replica);

// Throws Error when the plan is invalid (plan.hpp), a GPU is not in the topology, a replica mixes GPU types, or a stage
// has more classes of replicas than StageShape holds.
PlacedPlan place_plan(const Topology& topology, const Plan& plan);

// The stages' times, including `send`, and in `extra` the exchange of a tied table's gradient. Every TP rank sends the
// whole activations over its own rail, as Megatron does without scatter-gather. Throws nothing. `plan` must come from
// place_plan() or be as consistent.
std::vector<StageTime> stage_times(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan);

// The iteration time of the plan's schedule from its stages' times: exact_iteration(), or by the schedule's lists.
double exact_iteration(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan,
                       std::span<const StageTime> times);

}  // namespace espalier
