#include "launcher/slurm/step_share.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

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

// Whether "gres/gpu:per_task:1" or "single:1" binds. Binding may be asked for and turned off again: "verbose,none".
bool binds(const std::string& words) { return !words.empty() && !words.ends_with("none"); }

// As in "cpu=4,gres/gpu:h100=1". Slurm 24.05 writes --cpus-per-task there as well.
bool counts_gpus(const std::string& tres) {
  std::istringstream items(tres);
  for (std::string item; std::getline(items, item, ',');) {
    if (item.starts_with("gres/") || item.starts_with("gres:")) item.erase(0, 5);
    if (item.substr(0, item.find_first_of(":=")) == "gpu") return true;
  }
  return false;
}

// slurmd says what it has done. The other variables say what was asked for; those of a batch script may be overridden
// by the options of its srun.
bool is_bound() {
  if (const std::string done = variable("SLURMD_TRES_BIND"); done.find("gpu:") != std::string::npos) return binds(done);
  if (const std::string asked = variable("SLURM_TRES_BIND"); asked.find("gpu:") != std::string::npos)
    return binds(asked);
  if (const std::string asked = variable("SLURM_GPU_BIND"); !asked.empty()) return binds(asked);
  return !variable("SLURM_GPUS_PER_TASK").empty() || !variable("SLURM_NTASKS_PER_GPU").empty() ||
         counts_gpus(variable("SLURM_TRES_PER_TASK"));
}

}  // namespace

StepShare share_of_step() {
  StepShare share{expand_hosts(std::getenv("SLURM_STEP_NODELIST")), variable("SLURM_STEP_GPUS"), is_bound()};
  if (share.bound) share.gpus.clear();  // these are the task's, not the step's
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
