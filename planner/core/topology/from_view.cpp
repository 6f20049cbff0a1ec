#include "planner/core/topology/from_view.hpp"

#include <algorithm>
#include <optional>

#include "planner/core/topology/gpu_specs.hpp"

namespace espalier {
namespace {

constexpr double kGigabytePerSecond = 1e6;  // bytes/ms
constexpr double kMegabyte = 1e6;
constexpr double kTpShare = 0.5;
constexpr double kDpShare = 0.7;
constexpr double kHalfPcie4 = 15.753846e6;  // 16 lanes of PCIe 4.0, between NUMA nodes

struct NamedType {
  GpuType type;
  std::optional<double> link;  // link speed of a known model, per direction; 0: PCIe only
};

struct Description {
  NodeKind kind;
  NodeInside inside;
};

class Builder {
 public:
  Builder(const std::map<std::string, NodeHardware>& reports, const HardwareOverrides& overrides)
      : reports_(reports), overrides_(overrides) {
    result_.site.hardware.crossing = overrides.crossing;
    result_.site.hardware.v0 = overrides.v0_mb * kMegabyte;
    result_.site.hardware.v_sat = overrides.v_sat_mb * kMegabyte;
  }

  void add(const NodeView& node) {
    const bool has_gpus = !node.gpu_owner.empty();
    const int type = has_gpus ? type_of(node.gpu_type) : -1;
    const auto [kind, inside] = has_gpus ? describe(node, types_[static_cast<std::size_t>(type)]) : Description{};
    result_.site.topology.add_node(node.name, find_or_add(kind, inside),
                                   std::vector(node.gpu_owner.size(), static_cast<std::int16_t>(type)), node.switches);
  }

  SiteView take() {
    for (NamedType& named : types_) result_.site.hardware.types.push_back(std::move(named.type));
    for (std::size_t kind = 0; kind < insides_.size(); ++kind)
      if (insides_[kind].gpus > 0) result_.site.topology.set_inside(static_cast<int>(kind), std::move(insides_[kind]));
    return std::move(result_);
  }

 private:
  int type_of(const std::string& name) {
    const auto known =
        std::find_if(types_.begin(), types_.end(), [&](const NamedType& named) { return named.type.name == name; });
    if (known != types_.end()) return static_cast<int>(known - types_.begin());
    NamedType named;
    const auto spec = known_gpu(name);
    named.type = spec ? spec->type : known_gpu("a100")->type;
    named.type.name = name;
    if (spec) named.link = spec->link;
    GpuOverride given;
    if (const auto found = overrides_.gpus.find(name); found != overrides_.gpus.end()) given = found->second;
    if (given.tflops > 0) named.type.tflops = given.tflops;
    if (given.memory_gb > 0) named.type.memory_bytes = given.memory_gb * 1e9;
    if (given.memory_bandwidth_gb_s > 0) named.type.memory_bandwidth = given.memory_bandwidth_gb_s * kGigabytePerSecond;
    else if (!spec && given.tflops > 0) named.type.memory_bandwidth = 0;  // an A100's would not go with these TFLOPS
    if (!spec && (given.tflops <= 0 || given.memory_gb <= 0))
      result_.notes.push_back("GPU type \"" + name + "\": not known, taken for an A100 of 40 GB; give [gpu.NAME]");
    if (named.type.memory_bandwidth <= 0)
      result_.notes.push_back("GPU type \"" + name +
                              "\": memory bandwidth not known, so all types are compared by TFLOPS alone; give "
                              "memory_bandwidth_gb_s in [gpu.NAME]");
    types_.push_back(std::move(named));
    return static_cast<int>(types_.size()) - 1;
  }

  Description describe(const NodeView& node, const NamedType& type) {
    Description result;
    std::optional<double> link = type.link;
    if (link && *link <= 0) link = kHalfPcie4;
    const auto report = reports_.find(node.name);
    if (report != reports_.end() && report->second.inside.gpus != static_cast<int>(node.gpu_owner.size())) {
      result_.notes.push_back("node " + node.name + ": hwloc reports " + std::to_string(report->second.inside.gpus) +
                              " GPUs, Slurm has " + std::to_string(node.gpu_owner.size()) + "; its report is not used");
    } else if (report != reports_.end()) {
      const bool by_data_sheet = report->second.hidden_nvlink && type.link && *type.link > 0;
      if (!by_data_sheet) {
        result.inside = report->second.inside;
        if (const double slowest = slowest_ring_link(result.inside); slowest > 0) link = slowest;
      }
    }
    if (link) {
      result.kind.tp_bandwidth = kTpShare * *link;
      result.kind.dp_bandwidth = kDpShare * *link;
    }
    if (overrides_.tp_gb_s > 0) result.kind.tp_bandwidth = overrides_.tp_gb_s * kGigabytePerSecond;
    if (overrides_.dp_gb_s > 0) result.kind.dp_bandwidth = overrides_.dp_gb_s * kGigabytePerSecond;
    result.kind.nic_bandwidth = overrides_.nic_gb_s * kGigabytePerSecond;
    result.kind.nics = overrides_.nics;
    if (const auto own = overrides_.gpus.find(node.gpu_type); own != overrides_.gpus.end()) {
      if (own->second.nic_gb_s > 0) result.kind.nic_bandwidth = own->second.nic_gb_s * kGigabytePerSecond;
      if (own->second.nics > 0) result.kind.nics = own->second.nics;
    }
    return result;
  }

  int find_or_add(const NodeKind& kind, const NodeInside& inside) {
    auto& kinds = result_.site.hardware.kinds;
    for (std::size_t i = 0; i < kinds.size(); ++i)
      if (kinds[i] == kind && insides_[i] == inside) return static_cast<int>(i);
    kinds.push_back(kind);
    insides_.push_back(inside);
    return static_cast<int>(kinds.size()) - 1;
  }

  const std::map<std::string, NodeHardware>& reports_;
  const HardwareOverrides& overrides_;
  SiteView result_;
  std::vector<NamedType> types_;
  std::vector<NodeInside> insides_;  // by kind
};

}  // namespace

SiteView site_from_view(const ClusterView& view, const std::map<std::string, NodeHardware>& reports,
                        const HardwareOverrides& overrides) {
  Builder builder(reports, overrides);
  for (const NodeView& node : view.nodes) builder.add(node);
  return builder.take();
}

double slowest_ring_link(const NodeInside& inside) {
  if (inside.gpus < 2) return 0;
  // Prim's algorithm for a spanning tree of the largest bandwidths.
  std::vector<double> reach(static_cast<std::size_t>(inside.gpus), 0);
  std::vector<bool> joined(reach.size(), false);
  double slowest = 0;
  for (int latest = 0, count = 1; count < inside.gpus; ++count) {
    joined[static_cast<std::size_t>(latest)] = true;
    int next = -1;
    for (int gpu = 0; gpu < inside.gpus; ++gpu) {
      const auto at = static_cast<std::size_t>(gpu);
      if (joined[at]) continue;
      reach[at] = std::max(reach[at], double{inside.between(latest, gpu)});
      if (next < 0 || reach[at] > reach[static_cast<std::size_t>(next)]) next = gpu;
    }
    const double taken = reach[static_cast<std::size_t>(next)];
    slowest = count == 1 ? taken : std::min(slowest, taken);
    latest = next;
  }
  return slowest;
}

}  // namespace espalier
