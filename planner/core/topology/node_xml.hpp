// The inside of a node, read from hwloc's XML as slurmd's plugin reports it. The text comes from
// the nodes and is not trusted: nothing named in it is loaded, its size is limited, and text that
// does not parse is an Error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/topology/topology.hpp"

namespace espalier {

struct NodeGpu {
  std::string pci;  // "0000:34:00.0"
  // Number of the NUMA node in the operating system; -1: hwloc shows no NUMA node or several.
  int numa = -1;
  bool operator==(const NodeGpu&) const = default;
};

struct NodeHardware {
  // In the order of the GRES indices, taken to be the order of PCI addresses. With AutoDetect Slurm
  // keeps NVML's order, which is the PCI order (gres/gpu, _sort_gpu_by_links_order). With File=
  // Slurm sorts by /dev/nvidiaN, which the driver numbers by PCI address unless a site renumbers.
  // If the orders differ, only affinity inside the node is wrong.
  std::vector<NodeGpu> gpus;
  NodeInside inside;
  // The node has NVSwitches, but the report has no link speeds, because hwloc ran without NVML.
  // `inside` then knows PCIe only.
  bool hidden_nvlink = false;
  bool operator==(const NodeHardware&) const = default;
};

// Effective bandwidth between two GPUs is the best of:
// - Links between them (hwloc's NVLinkBandwidth, XGMIBandwidth or XeLinkBandwidth, per direction)
//   plus traffic through NVSwitches. The switches count as one fabric, because links between
//   switches are not reported. Traffic through them is the smaller of the two GPUs' sums to all
//   switches. hwloc's transitive closure gives the same but loses the direct links.
// - PCIe: the link's speed below a common PCIe switch, 5/6 of it through the CPU's root complex
//   (NCCL's INTEL_P2P_OVERHEAD), 1/2 of it between NUMA nodes (NCCL's QPI_BW / PCI_BW: 6 of 12
//   GB/s). Through the CPU, a GPU's NVLink to its own package counts if it is faster than the GPU's
//   PCIe link.
// PCIe speed is the speed of the node's fastest GPU, and at least PCIe 3.0 x16: an idle GPU's link
// is clocked down, and a report is made when slurmd starts.
// Throws Error when `xml` is no hwloc XML, is larger than 2 MiB, or shows no GPU or more than 256
// GPUs.
NodeHardware read_node_xml(const std::string& xml);

// Reads documents by node name. A document that cannot be read is left out, with a note. Keep the
// result, and read a node's document again only when the node reports anew: reading takes half a
// millisecond or more.
std::map<std::string, NodeHardware> read_reports(const std::map<std::string, std::string>& xml,
                                                 std::vector<std::string>& notes);

}  // namespace espalier
