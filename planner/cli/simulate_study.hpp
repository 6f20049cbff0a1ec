// One simulation of `espalier simulate`: its arguments, inputs and results.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/cli/simulate_arguments.hpp"
#include "planner/sim/bound.hpp"
#include "planner/sim/results.hpp"

namespace espalier::cli {

struct Study {
  SimulateArguments arguments;
  std::string cluster;
  int nodes = 0, gpus = 0;
  std::vector<std::string> notes;  // for people: values that were assumed or left out
  sim::Trace trace;                // without its jobs; the damaged rows are kept
  std::vector<sim::JobKind> kinds;
  sim::Workload workload;
  double window_from = 0, window_to = 0;  // submissions of the sampled jobs, on the trace's clock
  sim::SlurmQueueOptions slurm;           // of the queue slurm
  sim::PolicyRun reference;               // fifo
  std::optional<sim::JctBound> bound;     // if it was asked for
  std::vector<sim::PolicyRun> runs;       // of the policies asked for, in that order
  std::vector<sim::Summary> summaries;    // of the runs

  // GPU time of the jobs / GPU time of the cluster until the last submission.
  double offered_load() const;
};

using Progress = std::function<void(const std::string& what, double share)>;

// Reads the files, samples, simulates. Throws Error, UsageError.
Study run_study(const SimulateArguments& arguments, const Progress& progress);

std::string study_table(const Study& study);
nlohmann::json study_json(const Study& study);
// A line for each value of the swept figure.
std::string sweep_table(const Sweep& sweep, const std::vector<Study>& studies);
// Writes index.html into the folder; returns its path. Throws Error.
std::string write_report(const Study& study, const std::string& folder);

}  // namespace espalier::cli
