// Measured iteration times of real plans, from CSV files.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/iteration_profile.hpp"

namespace espalier::bench {

// One row. The first line names the columns, in any order: model, gpus, nodes, placement (GPUs
// used, one digit a node), pp, dp, tp, micro_batches, global_batch and iteration_time_s. fwdbwd_ms
// and optimizer_ms are given if they were measured. Models that published_model() does not know
// also need family, layers, hidden, heads, sequence and vocabulary. An empty field: not measured.
struct Measurement {
  std::string where;  // "FILE:LINE"
  std::string model;
  ModelShape shape;
  std::string placement;
  int pp = 1, dp = 1, tp = 1, micro_batches = 1;
  IterationTimes times;
  std::string name() const;  // for people, e.g. "88 pp2 dp4 tp2"
  bool same_model(const Measurement& other) const;
  bool same_plan(const Measurement& other) const;  // both must be of the same model
};

// Throws Error with file, line and column.
std::vector<Measurement> read_measurements(const std::string& path);

}  // namespace espalier::bench
