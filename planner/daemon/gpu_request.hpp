// How many GPUs a pending job asks for. Pure.
#pragma once

#include <string>

namespace espalier {

// The tres_per_* texts of the job's record, e.g. "gres:gpu:h100:2", "gres:gpu" or "gpu:2". A job
// may give several.
struct GpuRequest {
  std::string per_job, per_node, per_socket, per_task;
  int nodes = 1, tasks = 1, sockets_per_node = 1;
  int tasks_per_gpu = 0;  // --ntasks-per-gpu, which asks for GPUs where the texts name none; 0: not given
};

// 0 for a job without GPUs, and for a text that cannot be read. The planner leaves the job to
// Slurm.
int requested_gpus(const GpuRequest& request);

}  // namespace espalier
