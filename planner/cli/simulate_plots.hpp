// Plots of a simulation, drawn by gnuplot.
#pragma once

#include <string>
#include <vector>

#include "planner/sim/results.hpp"

namespace espalier::cli {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::size_t style = 0;  // colour and dashes: those of one policy are the same in all plots
};

struct Plot {
  std::string title, x, y;
  bool log_x = false, steps = false;
  std::vector<Curve> curves;
};

// Cumulative distribution of `values`, thinned to what a plot can show.
Curve distribution(const std::string& name, std::vector<double> values);
// Allocated GPUs over time as a share of the cluster's, averaged over `slots` equal times.
Curve utilization(const sim::PolicyRun& run, double until, int slots);

// An <svg> element. Throws Error: gnuplot cannot be started, or refuses.
std::string draw(const Plot& plot);

}  // namespace espalier::cli
