// The cluster of `espalier plan`: a TOML file, a preset, or the Slurm cluster of this
// machine.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/topology/hardware_overrides.hpp"
#include "planner/core/topology/node_xml.hpp"
#include "planner/sim/delays.hpp"
#include "planner/sim/redeployment.hpp"
#include "planner/sim/slurm_priority.hpp"

namespace espalier::cli {

struct PlanCluster {
  std::string name;                             // for people: the preset's name or the file's path
  ClusterView view;                             // all GPUs idle, nodes in the file's order
  HardwareOverrides hardware;                   // [network], [gpu.NAME]
  std::map<std::string, NodeHardware> reports;  // by node name; only nodes with an hwloc file
  std::set<std::string> idle;                   // of Slurm's nodes: up, and without a job
  std::vector<std::string> notes;               // for people: what of the file has no effect
  // [redeploy], [redeploy.METHOD]; for `espalier simulate`.
  sim::RedeployOptions redeploy;
  sim::Delays delays;            // [slurm]; for `espalier simulate`
  sim::SlurmQueueOptions slurm;  // likewise
};

// A preset (preset_clusters.hpp), or "slurm": the cluster of this machine. Any other text is a file's
// path. Throws Error, naming file, line and key.
PlanCluster read_plan_cluster(const std::string& name_or_path);

}  // namespace espalier::cli
