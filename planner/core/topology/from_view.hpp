// Hardware and topology of a cluster as the daemon sees it. Sources: Slurm's nodes and switches,
// hwloc's view of each node, data sheets of the GPUs, and the site's own settings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/topology/hardware_overrides.hpp"
#include "planner/core/topology/node_xml.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

struct SiteView {
  // Node i of its topology is view.nodes[i]. Nodes that cannot be told apart share a kind.
  Site site;
  std::vector<std::string> notes;  // for people: values that were assumed or left out
};

// A node without a report gets the data sheet's values for its GPU type, or NodeKind's defaults
// without a data sheet. So does a node whose report shows another number of GPUs than Slurm has,
// because the indices cannot be matched. A GPU type without a data sheet is treated as an A100 of
// 40 GB, with a note unless the site gives its figures.
//
// Bus bandwidth follows from the slowest link of a node's best ring. If hwloc could not see NVLink,
// the data sheet gives its speed. Tensor-parallel all-reduces get 1/2 of it, gradients get 0.7.
// Measured on A800 (200 GB/s per direction): 97-106 and 125-140 GB/s in the published LLaMA-2-7B
// plans of Rubick (MLSys'25). The same factors are used for PCIe, for want of figures. Throws Error
// when a node name occurs twice.
SiteView site_from_view(const ClusterView& view, const std::map<std::string, NodeHardware>& reports,
                        const HardwareOverrides& overrides = {});

// Slowest link, in bytes/ms, of the ring over all GPUs that avoids slow links best. A spanning tree
// approximates the ring (exact if bandwidth follows a hierarchy). 0: fewer than two GPUs.
double slowest_ring_link(const NodeInside& inside);

}  // namespace espalier
