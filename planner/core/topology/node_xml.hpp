// The inside of a node from hwloc's XML of it, as slurmd's plugin reports it. The text comes from the nodes and is
// taken for what it is: nothing in it is loaded, its size is limited, and what does not parse is an Error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/topology/topology.hpp"

namespace espalier {

struct NodeGpu {
  std::string pci;  // "0000:34:00.0"
  int numa = -1;    // NUMA node by the operating system's number; -1: hwloc places it at none or at several
  bool operator==(const NodeGpu&) const = default;
};

struct NodeHardware {
  // In the order of the GRES indices: by PCI address. With AutoDetect Slurm keeps NVML's order, which is that one
  // (gres/gpu, _sort_gpu_by_links_order); with File= it sorts by /dev/nvidiaN, which the driver numbers likewise unless
  // a site renumbers. Where they differ, affinity inside the node is off, and nothing else.
  std::vector<NodeGpu> gpus;
  NodeInside inside;
  // NVSwitches are there, but no link speeds: hwloc ran without NVML. `inside` then knows PCIe only.
  bool hidden_nvlink = false;
  bool operator==(const NodeHardware&) const = default;
};

// Effective bandwidth between two GPUs, the best of:
// - links between them (NVLinkBandwidth, XGMIBandwidth or XeLinkBandwidth of hwloc, per direction), plus what goes
//   through NVSwitches: the smaller of the two GPUs' sums to all switches, which are taken for one fabric (links
//   between switches are not reported). hwloc's transitive closure says the same, but forgets the direct links;
// - PCIe: the link's speed below a common PCIe switch, 5/6 of it through the CPU's root complex (NCCL's
//   INTEL_P2P_OVERHEAD), 1/2 between NUMA nodes (NCCL's QPI_BW / PCI_BW: 6 of 12 GB/s). Through the CPU a GPU's NVLink
//   to its own package counts where it is faster than its PCIe link.
// PCIe speed is that of the node's fastest GPU, at least PCIe 3.0 x16: the link of a GPU that idles is clocked down,
// and a report is made when slurmd starts. Throws Error: no hwloc XML, larger than 2 MiB, without GPUs, more than 256
// GPUs.
NodeHardware read_node_xml(const std::string& xml);

// Documents by node name. What cannot be read is left out and noted. Keep the result, and read a node's again only when
// it reports anew: a document takes half a millisecond and more.
std::map<std::string, NodeHardware> read_reports(const std::map<std::string, std::string>& xml,
                                                 std::vector<std::string>& notes);

}  // namespace espalier
