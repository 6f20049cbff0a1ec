// From the times of operations to what the performance model is calibrated with (Suika App. A.4.2). Pure.
#pragma once

#include <span>
#include <vector>

#include "planner/core/model/profile.hpp"
#include "torchrt/profiler/op_recorder.hpp"

namespace espalier::torchrt {

// The time fields of a profile, means over the steps in `times` of one rank, of plans of `micro_batches`. `sync` is
// what this rank waited for its gradients' sums, and with ZeRO-1 for parameters: also for ranks that were late.
ReplicaProfile replica_times(std::span<const OpTimes> times, int micro_batches);

// What rank 0 reports, of all replicas measured (by stage and replica): on every stage the slowest replica of each
// node, since GPUs of a node are alike. A stage's synchronization is that of its replica which waited least: the others
// waited for that one.
std::vector<ReplicaProfile> reported(std::vector<ReplicaProfile> replicas, const Plan& plan);

}  // namespace espalier::torchrt
