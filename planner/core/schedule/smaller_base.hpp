// Where a movable job may start while its base waits in Slurm's queue: on a smaller base, on GPUs that are idle now and
// that nobody else who waits could use. When Slurm grants the base that waits, training moves there. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/decision.hpp"
#include "planner/core/waiting.hpp"

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

// The base to ask for instead of the one that waits, as parts sorted by node. It has fewer GPUs than that one, of one
// type, and the same number on each node. Of these the most GPUs are taken, then the fewest nodes. It leaves enough
// nodes of `cluster` alone, whoever holds them now, that the waiting base fits beside it: the job must not wait for
// itself. Throws Error with the reason if there is none: Slurm does not say that the base waits for GPUs, or has not
// tried it yet; another waiting job could use the GPUs; there are too few.
// Cost: O(nodes + waiting jobs x nodes with idle GPUs + GPUs of a node x those nodes x types).
std::vector<ExtensionRequest> smaller_base(const WaitingBase& base, const ClusterView& cluster);

// Whether extensions give GPUs back for the base that waits, or are about to. It then starts in about the time that a
// generation takes to start, and a smaller base would only cost moves. Where enough GPUs are idle for it, and Slurm
// does not start it, Slurm has reasons of its own: no. `served`: what serve_waiting() says of the jobs of `cluster`.
bool gets_room(JobId base, const ClusterView& cluster, const WaitingPlan& served);

}  // namespace espalier
