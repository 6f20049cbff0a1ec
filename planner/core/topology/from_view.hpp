// Hardware and topology of a cluster as the daemon sees it: Slurm's nodes and switches, hwloc's view of each node, data
// sheets of the GPUs, and what the site knows better.
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
  Site site;  // node i of its topology is view.nodes[i]; nodes that cannot be told apart share a kind
  std::vector<std::string> notes;  // for a person: what was assumed or left out
};

// A node without a report has what the data sheet says of its GPU type (NodeKind's defaults where there is none), and
// so has one whose report shows another number of GPUs than Slurm has: indices cannot be matched. A GPU type without
// data sheet is taken for an A100 of 40 GB, and noted.
//
// Bus bandwidth follows from the speed of the slowest link of a node's best ring (NVLink's by data sheet where hwloc
// could not see it): 1/2 of it for tensor-parallel all-reduces, 0.7 for gradients. Measured on A800 (200 GB/s per
// direction): 97-106 and 125-140 GB/s in the published LLaMA-2-7B plans of Rubick (MLSys'25). Taken for PCIe as well,
// for want of figures.
// Throws Error: node names twice.
SiteView site_from_view(const ClusterView& view, const std::map<std::string, NodeHardware>& reports,
                        const HardwareOverrides& overrides = {});

// Of the ring over all GPUs that avoids slow links best, as far as a spanning tree tells (exact where bandwidth follows
// a hierarchy). bytes/ms; 0: fewer than two GPUs.
double slowest_ring_link(const NodeInside& inside);

}  // namespace espalier
