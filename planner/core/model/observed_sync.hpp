// Derives how much of a job's gradient synchronization computation hides, and how fast the links between nodes are,
// from the part of it that was measured as exposed (Suika App. A.4.2, step 5).
#pragma once

#include <vector>

#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/hardware.hpp"
#include "planner/core/model/placed_plan.hpp"

namespace espalier {

// Of a stage with several replicas: the slowest one, whose backward pass hides the synchronization, and what was
// measured of it.
struct ObservedSync {
  int stage = 0;
  int type = 0;  // of its GPUs
  int layers = 0, replicas = 0;
  bool first = false, last = false;  // the stage has the model's first or last edge
  double bwd = 0, sync = 0;          // ms: the backward pass, and what is exposed of the synchronization
};

// Sets what `result.job` says of synchronization: overlap and assumed_overlap of the types that `seen` shows,
// sync_beyond, rail_ms_per_byte and assumed_rail. Its sizes and computation times must be known. Adds doubts, and a
// sentence to the remarks for each of them and where `seen` is empty. `plan`: that of the profile. `seen`: by stage,
// ascending. `known_rail`: KnownBefore::rail_ms_per_byte. `any_program`: the program is of unknown kind (kDataFamily).
void infer_overlaps(Calibration& result, const Hardware& hardware, const PlacedPlan& plan,
                    const std::vector<ObservedSync>& seen, double known_rail, bool any_program);

}  // namespace espalier
