// The user's own choice of parallelism ([parallel] of a training configuration).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier {

// A degree that is not 0 holds for every plan of the job: tp = 2 means that the job never runs with
// another TP degree. When GPUs are taken or lost, pp, dp and tp_degrees are dropped if no plan can keep
// them, because a slower job is better than none. tp and micro_batches are never dropped.
struct ParallelLimits {
  int pp = 0;
  int dp = 0;                   // of every stage
  int tp = 0;                   // of every stage; with accuracy=bitwise 0 means 1
  int micro_batches = 0;        // N_b
  std::vector<int> tp_degrees;  // the planner's choice of TP degrees; empty: all that the model allows
  // Chunks of each stage (Plan::chunks), in every plan; as many of them as the stages have layers for. 0: one.
  int chunks = 0;
  // The chunks of a stage lie as a V: the model goes through the stages forward, then back. Needs chunks = 2.
  bool v_shaped = false;
  // The user's own order of the stages' work, as CSV (model/own_lists.hpp). Plans with its stages, chunks and
  // micro-batches run it. Empty: there is none, or it is too long to be told.
  std::string lists = {};
  // The first plan. It is a structure: its GPUs are replaced by the job's, in the order of its ranks.
  std::optional<Plan> first;
  bool operator==(const ParallelLimits&) const = default;
};

}  // namespace espalier
