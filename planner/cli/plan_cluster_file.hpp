// The cluster of `espalier plan`: a TOML file, or one of two known by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/topology/hardware_overrides.hpp"
#include "planner/core/topology/node_xml.hpp"
#include "planner/sim/delays.hpp"
#include "planner/sim/redeployment.hpp"

namespace espalier::cli {

struct PlanCluster {
  std::string name;                             // for people: the preset's, or the file's path
  ClusterView view;                             // all GPUs idle, nodes in the file's order
  HardwareOverrides hardware;                   // [network], [gpu.NAME]
  std::map<std::string, NodeHardware> reports;  // by node name, of nodes with an hwloc file
  sim::RedeployOptions redeploy;                // [redeploy], [redeploy.METHOD]: for `espalier simulate`
  sim::Delays delays;                           // [slurm]: likewise
};

// "cluster-a": Suika §5.1's 8 nodes of 8 H100 in one rack; "cluster-b": 128 of them in racks of 16. "slurm": the one
// that this machine belongs to. Anything else is a file's path. Throws Error that names file, line and key.
PlanCluster read_plan_cluster(const std::string& name_or_path);

}  // namespace espalier::cli
