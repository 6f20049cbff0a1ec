// What a calibration found: figures for [network] and [gpu.NAME], and what is slower than its like.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/probe/report.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// Absent: not measured, or not the same for all nodes; `notes` say why.
struct Findings {
  std::optional<double> tp_gb_s, v0_mb, v_sat_mb, dp_gb_s, nic_gb_s, crossing;
  std::optional<int> nics;
  struct Gpu {
    double tflops = 0, memory_bandwidth_gb_s = 0;
    int count = 0;
  };
  std::map<std::string, Gpu> gpus;  // by type
  struct Rails {
    double nic_gb_s = 0;
    int nics = 0;  // 0: not measured
  };
  // By GPU type of the nodes, in place of nic_gb_s and nics where the cluster has several types.
  std::map<std::string, Rails> rails;
  // By distance of the nodes: GB/s of all streams of a pair. The median of those that are not slow.
  std::map<int, double> by_distance;
  // All-reduces of one GPU of each of two nodes under one leaf, large ones. nullopt: not measured.
  std::optional<double> pair_reduce_gb_s;
  double reduce_error = 0;               // mean relative error of tp_gb_s, v0_mb and v_sat_mb on the all-reduces
  std::vector<std::string> slow, notes;  // sentences for people
};

// `types`: GPU type of every node of the cluster, measured or not. `topology` knows the nodes. Of an all-reduce that
// was measured several times the best figure counts.
Findings findings_of(const ProbeReport& report, const Topology& topology,
                     const std::map<std::string, std::string>& types);

// As tables of espalier.toml. `measured`: the date, in ISO 8601.
std::string to_toml(const Findings& findings, const std::string& measured, const std::string& nodes);

}  // namespace espalier
