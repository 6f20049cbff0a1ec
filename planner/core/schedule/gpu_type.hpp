// Jobs that must stay on GPUs of one type.
#pragma once

#include <string>

#include "planner/core/cluster.hpp"

namespace espalier {

// Whether GPUs of another type could change the job's losses: it has accuracy=bitwise and trains on GPUs, whose
// libraries choose other kernels for other types, which round differently. On processors all "types" compute the same
// bits.
bool keeps_gpu_type(const ElasticJob& job);

// The type of the GPUs of the job's anchor or base; empty: it has none, or the cluster does not know its nodes. Where
// these differ it is "a100+h100", which is the type of no node: a job that keeps it gets no other nodes.
std::string gpu_type_of(const ElasticJob& job, const ClusterView& cluster);

}  // namespace espalier
