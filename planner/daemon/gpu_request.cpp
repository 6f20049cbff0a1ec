#include "planner/daemon/gpu_request.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/gres.hpp"

namespace espalier {
namespace {

constexpr long kMost = 1 << 20;

// Slurm separates items by commas or semicolons. It writes "gres:gpu:2" or "gres/gpu=2".
long gpus_in(std::string text) {
  std::replace(text.begin(), text.end(), ';', ',');
  std::replace(text.begin(), text.end(), '/', ':');
  std::replace(text.begin(), text.end(), '=', ':');
  try {
    return parse_gpu_gres(text).count;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

int requested_gpus(const GpuRequest& request) {
  const long nodes = std::clamp(request.nodes, 1, 1 << 20);
  const long per_socket = nodes * std::clamp(request.sockets_per_node, 1, 64) * gpus_in(request.per_socket);
  const long per_task = std::clamp(request.tasks, 1, 1 << 20) * gpus_in(request.per_task);
  const long most = std::max({gpus_in(request.per_job), nodes * gpus_in(request.per_node), per_socket, per_task});
  if (most == 0 && request.tasks_per_gpu > 0) return std::clamp(request.tasks / request.tasks_per_gpu, 1, 1 << 20);
  return static_cast<int>(std::min(most, kMost));
}

}  // namespace espalier
