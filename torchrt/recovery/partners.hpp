// Who keeps copies of whose state. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

// Where a rank's memory is kept.
struct VaultPlace {
  std::string owner;           // the Slurm job whose vault it is
  bool own = false;            // it is the job's own: Slurm takes it only with the job
  bool with_launcher = false;  // on the launcher's node, whose loss is the job's
};

// By rank: the rank that keeps a copy of its state, -1 for nobody. The launcher's own ranks need nobody. Others rather
// have one of the job's own ranks, of which each keeps two; then a lent one on another node. Where nobody is the job's
// own, or nobody else is left, one on the next of the plan's nodes, the last before the first; a node's ranks spread
// over those of the next. Where the plan has one node, likewise with those of
// the next vault in place of the next node, since an extension takes its own with it. `places`: of the ranks.
std::vector<int> snapshot_partners(const Plan& plan, const std::vector<VaultPlace>& places);

}  // namespace espalier::torchrt
