// Plots of a simulation, drawn by gnuplot.
#pragma once

#include <string>
#include <vector>

#include "planner/sim/results.hpp"

namespace espalier::cli {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::size_t style = 0;  // colour and dashes; a policy has the same style in all plots
};

struct Plot {
  std::string title, x, y;
  bool log_x = false, steps = false;
  std::vector<Curve> curves;
};

// Cumulative distribution of `values`, thinned to as many points as a plot can show.
Curve distribution(const std::string& name, std::vector<double> values);
// Allocated GPUs over time, as a share of the cluster's GPUs, averaged over `slots` equal
// intervals.
Curve utilization(const sim::PolicyRun& run, double until, int slots);

// Returns an <svg> element. Throws Error when gnuplot cannot be started or fails.
std::string draw(const Plot& plot);

}  // namespace espalier::cli
