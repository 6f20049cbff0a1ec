// Kinds of jobs from a table of measured iteration times, as Arena's artifact publishes it.
#pragma once

#include <string>
#include <vector>

#include "planner/sim/job_kind.hpp"

namespace espalier::sim {

// `text`: CSV with the columns source, model, params, global_batch, gpu_type, num_gpus, gpus_per_node,
// device_key, is_dp_only, feasible, iter_time_s and dp_mem_ok. Rows of source "alpa_optimal" are the
// times of the best plan. Rows of source "arena_estimate" with is_dp_only 1 are the times of replicas.
//
// One kind for each model and each measured number of GPUs that the cluster holds. Its name is
// MODEL-PARAMS-BATCH, as "bert-1.3B-256". Rows of GPU types that the cluster does not have are left
// out. Throws Error, naming the line, for a row that cannot be read, and when no row is of use.
std::vector<JobKind> profile_kinds(const std::string& text, const Site& site, const ClusterView& cluster);

}  // namespace espalier::sim
