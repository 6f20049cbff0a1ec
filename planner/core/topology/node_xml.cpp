#include "planner/core/topology/node_xml.hpp"

#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/core/topology/hwloc_document.hpp"

namespace espalier {
namespace {

constexpr double kPcie3x16 = 15.753846e6;  // bytes/ms: 16 lanes of 8 GT/s, 128b/130b
constexpr double kMostLink = 1e12;         // bytes/ms: no link is as fast, but a document may say so
constexpr double kThroughRoot = 5.0 / 6;
constexpr double kBetweenNuma = 0.5;

using Owner = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

Owner make() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error("hwloc: no memory for a topology");
  return {raw, hwloc_topology_destroy};
}

Owner load(const std::string& xml) {
  check_hwloc_document(xml);
  Owner topology = make();
  hwloc_topology_t raw = topology.get();
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  // hwloc counts the terminating zero.
  if (hwloc_topology_set_xmlbuffer(raw, xml.c_str(), static_cast<int>(xml.size()) + 1) != 0 ||
      hwloc_topology_load(raw) != 0)
    throw Error("hwloc XML: cannot be parsed; is it cut short, or of a newer hwloc?");
  return topology;
}

bool has_device(hwloc_obj_t pci, std::string_view prefix) {
  for (hwloc_obj_t child = pci->io_first_child; child != nullptr; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->name != nullptr &&
        std::string_view(child->name).starts_with(prefix))
      return true;
  return false;
}

bool is_accelerator_class(unsigned pci_class) {
  constexpr std::array kClasses{0x0300u, 0x0302u, 0x0380u, 0x1200u};  // VGA, 3D, other display, accelerator
  return std::find(kClasses.begin(), kClasses.end(), pci_class) != kClasses.end();
}

constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002;

bool is_nv_switch(hwloc_obj_t object) {
  if (object->type != HWLOC_OBJ_PCI_DEVICE) return false;
  const auto& pci = object->attr->pcidev;
  return (object->subtype != nullptr && std::string_view(object->subtype) == "NVSwitch") ||
         (pci.vendor_id == kNvidia && pci.class_id == 0x0680);
}

// Finds the GPUs. A vendor library's devices are the best source. Without such devices, the PCI
// class decides for vendors whose display devices in a compute node are GPUs.
std::vector<hwloc_obj_t> find_gpus(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> devices;
  for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_pcidev(topology, at)) != nullptr;) devices.push_back(at);
  const auto select = [&](auto wanted) {
    std::vector<hwloc_obj_t> chosen;
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(chosen), wanted);
    return chosen;
  };
  std::vector<hwloc_obj_t> gpus;
  for (const std::string_view library : {"nvml", "rsmi", "ze"})
    if (gpus.empty()) gpus = select([&](hwloc_obj_t pci) { return has_device(pci, library); });
  for (const unsigned vendor : {kNvidia, kAmd})
    if (gpus.empty())
      gpus = select([&](hwloc_obj_t pci) {
        return pci->attr->pcidev.vendor_id == vendor && is_accelerator_class(pci->attr->pcidev.class_id);
      });
  std::sort(gpus.begin(), gpus.end(), [](hwloc_obj_t a, hwloc_obj_t b) {
    const auto key = [](const hwloc_obj_t object) {
      const auto& pci = object->attr->pcidev;
      return std::array<unsigned, 4>{pci.domain, pci.bus, pci.dev, pci.func};
    };
    return key(a) < key(b);
  });
  if (gpus.empty()) throw Error("hwloc XML: shows no GPU; does hwloc see PCI devices on that node?");
  if (gpus.size() > kMaxHwlocGpus)
    throw Error("hwloc XML: shows " + std::to_string(gpus.size()) + " GPUs, more than the " +
                std::to_string(kMaxHwlocGpus) + " allowed");
  return gpus;
}

// Reported links, in bytes/ms per direction.
struct Links {
  std::vector<double> direct;     // GPU to GPU
  std::vector<double> switched;   // GPU to all NVSwitches
  std::vector<double> processor;  // GPU to CPU packages
  bool any = false;
};

constexpr double kBytesPerMillisecond = 1000;  // hwloc says MB/s

class LinkReader {
 public:
  LinkReader(hwloc_topology_t topology, const std::vector<hwloc_obj_t>& gpus) : topology_(topology), gpus_(gpus) {
    links_.direct.resize(gpus.size() * gpus.size());
    links_.switched.resize(gpus.size());
    links_.processor.resize(gpus.size());
  }

  Links read() {
    for (const char* name : {"NVLinkBandwidth", "XGMIBandwidth", "XeLinkBandwidth"}) {
      unsigned count = 1;
      hwloc_distances_s* found = nullptr;
      if (hwloc_distances_get_by_name(topology_, name, &count, &found, 0) != 0 || count == 0) continue;
      add(*found);
      hwloc_distances_release(topology_, found);
    }
    return std::move(links_);
  }

 private:
  // Index of the GPU; -1: the object is no GPU of the node. `object` is the PCI device or an OS
  // device below it (nvml0, ze0.0).
  int gpu(hwloc_obj_t object) const {
    while (object != nullptr && object->type == HWLOC_OBJ_OS_DEVICE) object = object->parent;
    const auto at = std::find(gpus_.begin(), gpus_.end(), object);
    return at == gpus_.end() ? -1 : static_cast<int>(at - gpus_.begin());
  }

  void add(const hwloc_distances_s& matrix) {
    const std::size_t n = matrix.nbobjs;
    for (std::size_t i = 0; i < n; ++i) {
      const int from = matrix.objs[i] == nullptr ? -1 : gpu(matrix.objs[i]);
      if (from < 0) continue;
      const auto row = static_cast<std::size_t>(from);
      for (std::size_t j = 0; j < n; ++j) {
        hwloc_obj_t other = matrix.objs[j];
        const double speed = static_cast<double>(matrix.values[i * n + j]) * kBytesPerMillisecond;
        if (i == j || other == nullptr || speed <= 0) continue;
        if (const int to = gpu(other); to >= 0)
          links_.direct[row * gpus_.size() + static_cast<std::size_t>(to)] += speed;
        else if (is_nv_switch(other)) links_.switched[row] += speed;
        else if (other->type == HWLOC_OBJ_PACKAGE) links_.processor[row] += speed;
        links_.any = true;
      }
    }
  }

  hwloc_topology_t topology_;
  const std::vector<hwloc_obj_t>& gpus_;
  Links links_;
};

// The NUMA nodes that a device is attached to. A document may lack sets that hwloc's own discovery
// always provides.
hwloc_const_bitmap_t numa_nodes(hwloc_topology_t topology, hwloc_obj_t device) {
  const hwloc_obj_t home = hwloc_get_non_io_ancestor_obj(topology, device);
  if (home == nullptr || home->nodeset == nullptr)
    throw Error("hwloc XML: a GPU is attached to no NUMA node; export it with espalier-report or lstopo");
  return home->nodeset;
}

enum class PciPath { same_switch, same_numa, across_numa };

PciPath pci_path(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b) {
  // Looks for a PCI-to-PCI bridge above both. (hwloc_get_common_ancestor_obj compares depths, which
  // devices do not have.)
  for (hwloc_obj_t above_a = a->parent; above_a != nullptr && above_a->type == HWLOC_OBJ_BRIDGE;
       above_a = above_a->parent) {
    if (above_a->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) break;
    for (hwloc_obj_t above_b = b->parent; above_b != nullptr; above_b = above_b->parent)
      if (above_a == above_b) return PciPath::same_switch;
  }
  return hwloc_bitmap_intersects(numa_nodes(topology, a), numa_nodes(topology, b)) ? PciPath::same_numa
                                                                                   : PciPath::across_numa;
}

double through_pcie(PciPath path, double pcie, double host_link) {
  switch (path) {
    case PciPath::same_switch:
      return std::max(pcie, kThroughRoot * host_link);
    case PciPath::same_numa:
      return kThroughRoot * host_link;
    case PciPath::across_numa:
      break;
  }
  return kBetweenNuma * host_link;
}

NodeGpu describe(hwloc_topology_t topology, hwloc_obj_t gpu) {
  const auto& pci = gpu->attr->pcidev;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain), unsigned{pci.bus},
                unsigned{pci.dev}, unsigned{pci.func});
  const hwloc_const_bitmap_t numa = numa_nodes(topology, gpu);
  return {text.data(), hwloc_bitmap_weight(numa) == 1 ? hwloc_bitmap_first(numa) : -1};
}

}  // namespace

NodeHardware read_node_xml(const std::string& xml) {
  const Owner topology = load(xml);
  const auto gpus = find_gpus(topology.get());
  const std::size_t n = gpus.size();
  const Links links = LinkReader(topology.get(), gpus).read();

  NodeHardware node;
  double pcie = kPcie3x16;
  for (hwloc_obj_t gpu : gpus) {
    node.gpus.push_back(describe(topology.get(), gpu));
    const double speed = double{gpu->attr->pcidev.linkspeed} * 1e6;
    if (speed < kMostLink) pcie = std::max(pcie, speed);
  }
  node.inside.gpus = static_cast<int>(n);
  node.inside.bandwidth.resize(n * n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const double linked = links.direct[a * n + b] + std::min(links.switched[a], links.switched[b]);
      const double host_link = std::max(pcie, std::min(links.processor[a], links.processor[b]));
      const double through = through_pcie(pci_path(topology.get(), gpus[a], gpus[b]), pcie, host_link);
      node.inside.bandwidth[a * n + b] = static_cast<float>(std::max(linked, through));
    }
  if (!links.any)
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_pcidev(topology.get(), at)) != nullptr;)
      node.hidden_nvlink = node.hidden_nvlink || is_nv_switch(at);
  return node;
}

std::map<std::string, NodeHardware> read_reports(const std::map<std::string, std::string>& xml,
                                                 std::vector<std::string>& notes) {
  // hwloc unloads its plugins with the last topology. Without this one, each document would load
  // them anew.
  const Owner kept = make();
  std::map<std::string, NodeHardware> reports;
  for (const auto& [node, text] : xml) {
    try {
      reports.emplace(node, read_node_xml(text));
    } catch (const Error& error) {
      notes.push_back("node " + node + ": " + error.what());
    }
  }
  return reports;
}

}  // namespace espalier
