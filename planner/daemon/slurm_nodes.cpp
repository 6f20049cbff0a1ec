#include "planner/daemon/slurm_nodes.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>

#include "planner/core/error.hpp"
#include "planner/core/gres.hpp"
#include "planner/slurm/node_state.h"
#include "planner/slurm/site.h"

namespace espalier {
namespace {

// Seconds. An epilog may check GPUs for as long as this. Its GPUs are for the jobs that wait meanwhile, and nothing
// else starts there.
constexpr double kEpilog = 5;
constexpr double kCompletes = 60;  // its end is told at once, unless something is wrong

// The GPUs that jobs use by shares: "gpu:h100:0(IDX:N/A),shard:h100:5(4/8,1/8)". Slurm counts them as idle, and starts
// no job there that asks for a whole GPU. Older ones do not tell which GPUs it is.
void take_shared(const std::string& gres_used, std::vector<JobId>& owners) {
  for (const SharedGres& one : shared_gres(gres_used)) {
    int told = 0;
    for (const int used : one.by_gpu) told += used;
    const bool each = one.by_gpu.size() == owners.size() && told >= one.used;
    for (std::size_t i = 0; i < owners.size(); ++i)
      if (owners[i] == 0 && one.used > 0 && (!each || one.by_gpu[i] > 0)) owners[i] = kUnknownOwner;
  }
}

}  // namespace

bool read_gpus(const std::string& gres, const std::string& gres_used, NodeView& view) {
  try {
    const GpuGres all = parse_gpu_gres(gres), used = parse_gpu_gres(gres_used);
    const auto lent = lent_type(gres);
    view.gpu_type = lent.value_or(all.type);
    view.gpu_owner.assign(static_cast<std::size_t>(std::min(all.count, kMostGpusOfNode)), 0);
    for (const int index : used.indices)
      if (static_cast<std::size_t>(index) < view.gpu_owner.size())
        view.gpu_owner[static_cast<std::size_t>(index)] = kUnknownOwner;
    take_shared(gres_used, view.gpu_owner);
    const auto counts = gpu_counts(gres);
    if (counts.size() <= 1 && (lent || all.count == 0)) return true;
    // Slurm does not tell which index is of which type. Extensions ask for a type and a number, so the number counts.
    int idle = lent ? counts.at(*lent) - gpu_counts(gres_used)[*lent] : 0;
    for (JobId& owner : view.gpu_owner)
      if (owner == 0 && --idle < 0) owner = kUnknownOwner;
    return true;
  } catch (const Error&) {
    return false;
  }
}

NodeView convert_node(const node_info_t& node, const SwitchPaths& switches) {
  NodeView view;
  view.name = node.name;
  // A GRES text of another Slurm: better no growth there than on a busy GPU.
  const bool readable =
      read_gpus(node.gres == nullptr ? "" : node.gres, node.gres_used == nullptr ? "" : node.gres_used, view);
  const espalier_node_use used = espalier_slurm_node_use(&node);
  view.free_cpus = std::max(0, int{node.cpus_efctv} - int{used.cpus});
  const auto reserved = node.mem_spec_limit == NO_VAL64 ? 0 : node.mem_spec_limit;
  const auto taken = used.memory_mb + reserved;
  view.cpus = int{node.cpus_efctv};
  view.memory_mb =
      node.real_memory > reserved ? static_cast<int>(std::min<std::uint64_t>(node.real_memory - reserved, INT_MAX)) : 0;
  view.free_memory_mb = node.real_memory > taken ? static_cast<long>(node.real_memory - taken) : 0;
  view.usable = readable && espalier_slurm_takes_work(node.node_state);
  if (const auto path = switches.find(view.name); path != switches.end()) view.switches = path->second;
  return view;
}

std::optional<uid_t> owner_of(const node_info_t& node) {
  return node.owner == NO_VAL ? std::nullopt : std::optional<uid_t>(node.owner);
}

namespace {

std::set<std::string> features_in(const char* text) {
  std::set<std::string> features;
  const std::string list = text == nullptr ? "" : text;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) features.insert(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return features;
}

}  // namespace

std::set<std::string> active_features(const node_info_t& node) {
  return features_in(node.features_act != nullptr ? node.features_act : node.features);
}

std::set<std::string> available_features(const node_info_t& node) { return features_in(node.features); }

void assign_owners(SlurmSnapshot& snapshot) {
  // Running jobs last: where a completing job's record and a new one's name the same GPU, the new one has it.
  for (const SlurmJobState state : {SlurmJobState::completing, SlurmJobState::running})
    for (const auto& [id, job] : snapshot.jobs) {
      if (job.state != state) continue;
      for (const Holding& held : job.holdings) {
        NodeView* const node = snapshot.cluster.find(held.node);
        if (node == nullptr) continue;
        if (state == SlurmJobState::completing && snapshot.time - job.ended > kEpilog) {
          node->free_cpus = 0;  // so that no extension is started there
          if (snapshot.time - job.ended > kCompletes) node->usable = false;
        }
        for (const int index : held.gpus) {
          if (static_cast<std::size_t>(index) >= node->gpu_owner.size()) continue;
          JobId& owner = node->gpu_owner[static_cast<std::size_t>(index)];
          if (state == SlurmJobState::completing && owner == 0) continue;  // already given back
          owner = id;
          std::erase(node->freeing, index);
          if (state == SlurmJobState::completing || job.preempted) node->freeing.push_back(index);
        }
      }
    }
  for (NodeView& node : snapshot.cluster.nodes) std::sort(node.freeing.begin(), node.freeing.end());
}

}  // namespace espalier
