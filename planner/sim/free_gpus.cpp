#include "planner/sim/free_gpus.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace espalier::sim {

FreeGpus::FreeGpus(const ClusterView& cluster, const Owners& also, const Owners& passing)
    : cluster_(cluster), free_(cluster.nodes.size()), passing_(cluster.nodes.size()) {
  JobId known = 0;  // owner of the previous GPU; neighbours mostly have one owner
  bool is_free = true, passes = false;
  for (std::size_t n = 0; n < free_.size(); ++n) {
    const NodeView& node = cluster.nodes[n];
    if (!node.usable) continue;
    for (std::size_t gpu = 0; gpu < node.gpu_owner.size(); ++gpu) {
      const JobId owner = node.gpu_owner[gpu];
      if (owner != known) {
        known = owner;
        is_free = owner == 0 || (also && also(owner));
        passes = !is_free && passing && passing(owner);
      }
      if (is_free) free_[n].push_back(static_cast<int>(gpu));
      else if (passes) ++passing_[n];
    }
    count_ += static_cast<int>(free_[n].size());
  }
}

std::optional<std::size_t> FreeGpus::index_of(const std::string& node) const {
  const NodeView* found = cluster_.find(node);
  if (found == nullptr) return std::nullopt;
  return static_cast<std::size_t>(found - cluster_.nodes.data());
}

// The chosen node; empty: no node fits.
std::vector<std::size_t> FreeGpus::within_a_node(int gpus, const std::string& type,
                                                 const std::vector<std::size_t>& but) const {
  const auto wanted = static_cast<std::size_t>(gpus);
  std::optional<std::size_t> best;
  for (std::size_t n = 0; n < free_.size(); ++n) {
    if (free_[n].size() < wanted || (!type.empty() && cluster_.nodes[n].gpu_type != type)) continue;
    if (best && free_[n].size() + passing_[n] >= free_[*best].size() + passing_[*best]) continue;
    if (std::find(but.begin(), but.end(), n) != but.end()) continue;
    best = n;
    if (free_[n].size() + passing_[n] == wanted) break;
  }
  return best ? std::vector{*best} : std::vector<std::size_t>{};
}

// `nodes` wholly free nodes of `size` GPUs each; empty: there are too few.
std::vector<std::size_t> FreeGpus::whole_nodes(int nodes, int size, const std::string& type) const {
  const auto wanted = static_cast<std::size_t>(nodes);
  std::map<std::vector<std::string>, std::vector<std::size_t>> racks;
  for (std::size_t n = 0; n < free_.size(); ++n) {
    const NodeView& node = cluster_.nodes[n];
    if (free_[n].size() != static_cast<std::size_t>(size) || free_[n].size() != node.gpu_owner.size()) continue;
    if (node.gpu_type == type) racks[node.switches].push_back(n);
  }
  const std::vector<std::size_t>* tightest = nullptr;
  std::vector<const std::vector<std::size_t>*> all;
  for (const auto& [path, rack] : racks) {
    all.push_back(&rack);
    if (rack.size() >= wanted && (tightest == nullptr || rack.size() < tightest->size())) tightest = &rack;
  }
  std::vector<std::size_t> chosen;
  if (tightest != nullptr) {
    chosen.assign(tightest->begin(), tightest->begin() + nodes);
    return chosen;
  }
  std::stable_sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->size() > b->size(); });
  for (const auto* rack : all)
    for (const std::size_t n : *rack)
      if (chosen.size() < wanted) chosen.push_back(n);
  if (chosen.size() < wanted) chosen.clear();
  return chosen;
}

void FreeGpus::take_from(std::size_t node, int gpus, std::vector<GpuId>& taken) {
  auto& free = free_[node];
  for (int i = 0; i < gpus; ++i) taken.push_back({cluster_.nodes[node].name, free[static_cast<std::size_t>(i)]});
  free.erase(free.begin(), free.begin() + gpus);
  count_ -= gpus;
}

std::optional<std::vector<GpuId>> FreeGpus::take(int gpus, const std::string& type) {
  if (gpus <= 0 || gpus > count_) return std::nullopt;
  std::vector<GpuId> taken;
  if (const auto node = within_a_node(gpus, type, {}); !node.empty()) {
    take_from(node.front(), gpus, taken);
    return taken;
  }
  // The sizes of nodes by type. Only nodes of one type and size serve a job of several nodes.
  std::map<std::pair<std::string, int>, int> sizes;
  for (const NodeView& node : cluster_.nodes)
    if (type.empty() || node.gpu_type == type) ++sizes[{node.gpu_type, static_cast<int>(node.gpu_owner.size())}];
  for (const auto& [kind, count] : sizes) {
    const auto& [name, size] = kind;
    if (gpus <= size) continue;
    const int rest = gpus % size;
    auto nodes = whole_nodes(gpus / size, size, name);
    if (nodes.empty()) continue;
    const auto last = rest > 0 ? within_a_node(rest, name, nodes) : std::vector<std::size_t>{};
    if (rest > 0 && last.empty()) continue;
    for (const std::size_t n : nodes) take_from(n, size, taken);
    if (rest > 0) take_from(last.front(), rest, taken);
    return taken;
  }
  for (const auto& [kind, count] : sizes)
    if (gpus > kind.second && spread(gpus, kind.second, kind.first, taken)) return taken;
  return std::nullopt;
}

// Takes equally many GPUs on as few nodes as can hold them. The nodes may be partly in use.
bool FreeGpus::spread(int gpus, int size, const std::string& type, std::vector<GpuId>& taken) {
  const int nodes = (gpus + size - 1) / size, each = (gpus + nodes - 1) / nodes;
  std::vector<std::size_t> chosen;
  for (int left = gpus; left > 0; left -= each) {
    const auto node = within_a_node(std::min(each, left), type, chosen);
    if (node.empty()) return false;
    chosen.push_back(node.front());
  }
  int left = gpus;
  for (const std::size_t n : chosen) {
    take_from(n, std::min(each, left), taken);
    left -= each;
  }
  return true;
}

bool FreeGpus::take_these(const std::vector<GpuId>& gpus) {
  for (const GpuId& gpu : gpus) {
    const auto node = index_of(gpu.node);
    if (!node || !std::binary_search(free_[*node].begin(), free_[*node].end(), gpu.index)) return false;
  }
  for (const GpuId& gpu : gpus) {
    auto& free = free_[*index_of(gpu.node)];
    free.erase(std::lower_bound(free.begin(), free.end(), gpu.index));
  }
  count_ -= static_cast<int>(gpus.size());
  return true;
}

void FreeGpus::give_back(const std::vector<GpuId>& gpus) {
  for (const GpuId& gpu : gpus) {
    const auto node = index_of(gpu.node);
    if (!node) continue;
    auto& free = free_[*node];
    const auto at = std::lower_bound(free.begin(), free.end(), gpu.index);
    if (at != free.end() && *at == gpu.index) continue;
    free.insert(at, gpu.index);
    ++count_;
  }
}

void FreeGpus::close(std::size_t node) {
  closed_.resize(free_.size());
  count_ -= static_cast<int>(free_[node].size());
  closed_[node].swap(free_[node]);
}

void FreeGpus::open(std::size_t node) {
  closed_[node].swap(free_[node]);
  count_ += static_cast<int>(free_[node].size());
}

}  // namespace espalier::sim
