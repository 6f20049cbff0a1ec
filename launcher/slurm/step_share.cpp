#include "launcher/slurm/step_share.hpp"

#include <algorithm>
#include <cstdlib>

#include "planner/core/error.hpp"
#include "planner/core/gres.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::launcher {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::size_t count_of(const std::string& numbers) {
  try {
    return parse_gpu_gres("gpu:1(IDX:" + numbers + ")").indices.size();
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

StepShare share_of_step() {
  StepShare share{expand_hosts(std::getenv("SLURM_STEP_NODELIST")), variable("SLURM_STEP_GPUS")};
  // Where tasks are bound to GPUs, each may be told of its own only.
  for (const char* name : {"SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_GPU_BIND"})
    if (!variable(name).empty()) share.gpus.clear();
  return share;
}

std::string lack_of(const StepShare& step, const std::vector<Holding>& held, const std::string& node) {
  for (const Holding& holding : held) {
    if (holding.gpus.empty()) continue;
    if (!step.nodes.empty() && std::find(step.nodes.begin(), step.nodes.end(), holding.node) == step.nodes.end())
      return "node " + holding.node;
    const std::size_t gpus = count_of(step.gpus);
    if (holding.node == node && gpus > 0 && gpus < holding.gpus.size())
      return std::to_string(holding.gpus.size() - gpus) + " of the " + std::to_string(holding.gpus.size()) +
             " GPUs on " + node;
  }
  return "";
}

}  // namespace espalier::launcher
