// Turns times of operations into the figures that calibrate the performance model (Suika App.
// A.4.2). Pure.
#pragma once

#include <span>
#include <vector>

#include "planner/core/model/profile.hpp"
#include "torchrt/profiler/op_recorder.hpp"

namespace espalier::torchrt {

// The time fields of a profile: means over the steps in `times` of one rank, in a plan of
// `micro_batches`. `sync` is the time that this rank waited for the sums of its gradients and, with
// ZeRO-1, for parameters. It includes waiting for late ranks.
ReplicaProfile replica_times(std::span<const OpTimes> times, int micro_batches);

// Rank 0's report from all measured replicas (ordered by stage and replica). On every stage it
// takes the slowest replica of each node, because a node's GPUs are alike. A stage's `sync` is that
// of the replica that waited least, because the other replicas waited for that one. `spread` is the
// largest on the node, so that the planner finds a profile calm when the ranks do.
std::vector<ReplicaProfile> reported(std::vector<ReplicaProfile> replicas, const Plan& plan);

}  // namespace espalier::torchrt
