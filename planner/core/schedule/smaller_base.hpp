// Where a movable job may start while its base waits in Slurm's queue: on a smaller base, on GPUs that are idle now and
// that nobody else who waits could use. When Slurm grants the base that waits, training moves there. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/decision.hpp"

namespace espalier {

// A decision of kind start whose `acquire` has no lease (lease_minutes 0) asks for such a base, with as many GPUs on
// each of these nodes. It has no plan: that follows when the base runs.
inline bool starts_smaller(const Decision& decision) {
  return decision.kind == DecisionKind::start && !decision.acquire.empty() &&
         decision.acquire.front().lease_minutes == 0;
}

struct WaitingBase {
  JobId id = 0;
  int least = 0;                   // GPUs that are enough to start: MIN
  bool one_type = false;           // bit-identical: the smaller base must have GPUs of the type of the one that waits
  std::vector<std::string> types;  // GPU types that the job may run on; empty: any
};

// The parts of the smaller base, sorted by node: the most GPUs that can be had with as many on each node, on the fewest
// nodes of those. It has fewer GPUs than the one that waits, on one type of GPUs, and leaves so many nodes alone that
// the one that waits has room beside it on the nodes of `cluster`, whoever holds them now: the job must not wait for
// itself. Throws Error that says why there is none: Slurm does not say that the base waits for GPUs, or has not had its
// try yet; another waiting job could use the GPUs; there are too few.
// Cost: O(nodes + waiting jobs x nodes with idle GPUs + GPUs of a node x those nodes x types).
std::vector<ExtensionRequest> smaller_base(const WaitingBase& base, const ClusterView& cluster);

}  // namespace espalier
