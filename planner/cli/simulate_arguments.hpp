// The command line of `espalier simulate`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/sim/workload.hpp"

namespace espalier::cli {

// Stands among the policies for the lower bound that no policy can reach (bound.hpp).
inline constexpr const char* kBound = "bound";

// The figure that is swept (Suika §5.4) and its values.
struct Sweep {
  std::string key;
  std::vector<std::string> values;
};

struct SimulateArguments {
  std::string cluster, trace;
  std::string format;   // format of the trace; empty: found from its first line
  std::string jobs;     // the table of kinds; empty: Suika's Tab. 1
  std::string profile;  // measured times of models (Arena's profile.csv); empty: none
  std::string config;   // espalier.toml of the planner; empty: its defaults
  std::vector<std::string> policies;
  std::optional<double> from, to;
  double busiest_hours = 0;       // 0: not given
  std::optional<int> trace_gpus;  // nullopt: as the trace's format says
  std::optional<sim::Mapping> mapping;
  sim::WorkloadOptions workload;  // scale, load, mix, seed
  sim::QueueOrder queue = sim::QueueOrder::fifo;
  std::optional<double> lambda;  // nullopt: the configuration's, else 1
  double prediction_error = 0;
  std::optional<double> short_first;       // for the policy espalier
  std::optional<double> trade;             // likewise
  std::optional<ObjectiveKind> objective;  // likewise; nullopt: the configuration's, else jct
  std::optional<double> idle_seconds;      // for the policy espalier; nullopt: a forecast, or as the configuration says
  double bandwidth = 1;                    // factor on the bandwidth between nodes
  std::optional<Sweep> sweep;
  bool json = false, latency = false, quiet = false;
  std::string report;  // folder of the report; empty: no report
};

// Throws UsageError. nullopt: help was asked for; `help` holds the text.
std::optional<SimulateArguments> parse_simulate(const std::vector<std::string>& arguments, std::string& help);

// Sets a swept figure of `arguments` to one value. Throws UsageError.
void set_swept(SimulateArguments& arguments, const std::string& key, const std::string& value);

}  // namespace espalier::cli
