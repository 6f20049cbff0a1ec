// The command line of `espalier simulate`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/sim/workload.hpp"

namespace espalier::cli {

// Which figure is swept (Suika §5.4), and the values it takes.
struct Sweep {
  std::string key;
  std::vector<std::string> values;
};

struct SimulateArguments {
  std::string cluster, trace;
  std::string format;  // of the trace; empty: by its first line
  std::string jobs;    // the table of kinds; empty: Suika's Tab. 1
  std::string config;  // espalier.toml of the planner; empty: its defaults
  std::vector<std::string> policies;
  std::optional<double> from, to;
  double busiest_hours = 0;       // 0: not asked for
  std::optional<int> trace_gpus;  // nullopt: what the format says
  std::optional<sim::Mapping> mapping;
  sim::WorkloadOptions workload;  // scale, load, mix, seed
  sim::QueueOrder queue = sim::QueueOrder::fifo;
  std::optional<double> lambda;  // nullopt: the configuration's, else 1
  double prediction_error = 0;
  std::optional<double> small_first;  // of espalier
  double bandwidth = 1;               // factor on what nodes have between them
  std::optional<Sweep> sweep;
  bool json = false, latency = false, quiet = false;
  std::string report;  // folder
};

// Throws UsageError. nullopt: help was asked for, and is in `help`.
std::optional<SimulateArguments> parse_simulate(const std::vector<std::string>& arguments, std::string& help);

// One value of a swept figure, into `arguments`. Throws UsageError.
void set_swept(SimulateArguments& arguments, const std::string& key, const std::string& value);

}  // namespace espalier::cli
