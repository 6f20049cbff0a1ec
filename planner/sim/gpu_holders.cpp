#include "planner/sim/gpu_holders.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::sim {

std::vector<Holding> holdings_of(const Plan& plan, JobId owner) {
  std::vector<Holding> result;
  for (const GpuId& gpu : plan.ranks()) {
    auto held = std::find_if(result.begin(), result.end(), [&](const Holding& h) { return h.node == gpu.node; });
    if (held == result.end()) held = result.insert(result.end(), {owner, gpu.node, {}});
    held->gpus.push_back(gpu.index);
  }
  for (Holding& held : result) std::sort(held.gpus.begin(), held.gpus.end());
  return result;
}

std::vector<Holding> merged(std::vector<Holding> a, const std::vector<Holding>& b) {
  for (const Holding& more : b) {
    const auto held = std::find_if(a.begin(), a.end(), [&](const Holding& h) { return h.node == more.node; });
    if (held == a.end()) {
      a.push_back(more);
      continue;
    }
    held->gpus.insert(held->gpus.end(), more.gpus.begin(), more.gpus.end());
    std::sort(held->gpus.begin(), held->gpus.end());
    held->gpus.erase(std::unique(held->gpus.begin(), held->gpus.end()), held->gpus.end());
  }
  return a;
}

void GpuHolders::know_nodes() {
  for (std::size_t n = 0; n < input_.cluster.nodes.size(); ++n) node_index_[input_.cluster.nodes[n].name] = n;
}

NodeView& GpuHolders::node(const std::string& name) { return input_.cluster.nodes[node_index_.at(name)]; }

void GpuHolders::own(const Holding& held, JobId owner) {
  auto& owners = node(held.node).gpu_owner;
  for (const int gpu : held.gpus) {
    JobId& slot = owners[static_cast<std::size_t>(gpu)];
    ESPALIER_INVARIANT(owner == 0 || slot == 0 || slot == owner);
    slot = owner;
  }
}

std::optional<std::string> GpuHolders::obstacle(const std::vector<Holding>& wanted,
                                                const std::set<JobId>& or_owned_by) const {
  for (const Holding& held : wanted) {
    const auto at = node_index_.find(held.node);
    if (at == node_index_.end()) return "there is no node " + held.node;
    const auto& owners = input_.cluster.nodes[at->second].gpu_owner;
    for (const int gpu : held.gpus) {
      if (gpu < 0 || static_cast<std::size_t>(gpu) >= owners.size()) return held.node + " has fewer GPUs";
      const JobId owner = owners[static_cast<std::size_t>(gpu)];
      if (owner != 0 && !or_owned_by.contains(owner))
        return held.node + "/" + std::to_string(gpu) + " belongs to job " + std::to_string(owner);
    }
  }
  return std::nullopt;
}

bool GpuHolders::is_extension(JobId id) const {
  return std::binary_search(input_.extensions.begin(), input_.extensions.end(), id);
}

void GpuHolders::add_extension(const Holding& extension) {
  own(extension, extension.job);
  input_.extensions.push_back(extension.job);
}

void GpuHolders::forget_extension(JobId id) {
  const auto at = std::lower_bound(input_.extensions.begin(), input_.extensions.end(), id);
  if (at != input_.extensions.end() && *at == id) input_.extensions.erase(at);
}

void GpuHolders::drop_extension(ElasticJob& job, JobId extension) {
  for (const Holding& held : job.extensions)
    if (held.job == extension) own(held, 0);
  std::erase_if(job.extensions, [&](const Holding& held) { return held.job == extension; });
  forget_extension(extension);
}

void GpuHolders::no_longer_freeing(const ElasticJob& job, JobId extension) {
  for (const Holding& held : job.extensions) {
    if (held.job != extension) continue;
    std::erase_if(node(held.node).freeing,
                  [&](int gpu) { return std::find(held.gpus.begin(), held.gpus.end(), gpu) != held.gpus.end(); });
  }
}

}  // namespace espalier::sim
