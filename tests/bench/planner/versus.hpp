// Compares the planner's incremental plans of a growing job with plans from scratch.
#pragma once

#include <functional>
#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "tests/bench/planner/paper_cluster.hpp"

namespace espalier::bench {

// The plan that a user submits the job with, on the first GPUs of a cluster of 8-GPU nodes.
// Replicas fill the nodes stage by stage. Layers are as even as possible. N_b is the best one.
// Throws Error when the job does not fit.
PlanSketch default_plan(Evaluator& evaluator, const PaperJob& job);

struct VersusRow {
  int gpus = 0;
  double planner = 0, best = 0;  // printed iteration time, ms
  double plan_ms = 0;            // wall time of the planner's call
  double plan_cpu_ms = 0;        // its CPU time
  bool proven = false;           // no plan is faster than `best`
};

struct VersusLimits {
  double seconds = 0;  // of the search from scratch, at each count
  long labels = 0;     // its work
};

// On nodes of 8 H100 under one switch, from the job's default plan on. `counts` rise from the job's
// own count. For each count the planner gets the job's next GPUs in affinity order and starts from
// its plan of the count before. The search from scratch starts from the planner's plan as its
// incumbent, so `best` is never worse. `seen` is called after every row.
std::vector<VersusRow> measure_versus(const PaperJob& job, const std::vector<int>& counts, const VersusLimits& limits,
                                      const std::function<void(const VersusRow&)>& seen);

}  // namespace espalier::bench
