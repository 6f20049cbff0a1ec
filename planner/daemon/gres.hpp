// Slurm's texts about generic resources. Pure; unreadable text counts as nothing, never as an error: a site's other
// GRES must not stop the planner.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace espalier {

// The GPUs in a GRES text such as "gpu:h100:4(S:0-1),nic:1" (a node's) or "gpu:h100:2(IDX:0-1)" (a job's, a node's
// used).
struct GpuGres {
  std::string type;          // of the first GPU entry; "" when untyped
  int count = 0;             // over all GPU entries
  std::vector<int> indices;  // sorted; empty when the text has none
};
GpuGres parse_gpu_gres(std::string_view text);

// "0-1,3" -> 0 1 3. "N/A" and nonsense give nothing.
std::vector<int> parse_index_list(std::string_view text);

// What a pending job asks for, from the tres_per_* texts of its record ("gres:gpu:h100:2", "gres:gpu", "gpu:2").
struct GpuRequest {
  std::string per_job, per_node, per_socket, per_task;
  int nodes = 1, tasks = 1, sockets_per_node = 1;
};
int requested_gpus(const GpuRequest& request);

}  // namespace espalier
