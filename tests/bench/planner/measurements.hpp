// Measured iteration times of real plans, from CSV files.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/iteration_profile.hpp"

namespace espalier::bench {

// One row. Columns in any order, named in the first line: model, gpus, nodes, placement (GPUs used, one digit a node),
// pp, dp, tp, micro_batches, global_batch, iteration_time_s; and where measured fwdbwd_ms and optimizer_ms. Optional:
// family, layers, hidden, heads, sequence, vocabulary for models that published_model() does not know. Empty: not
// measured.
struct Measurement {
  std::string where;  // "FILE:LINE"
  std::string model;
  ModelShape shape;
  std::string placement;
  int pp = 1, dp = 1, tp = 1, micro_batches = 1;
  IterationTimes times;
  std::string name() const;  // "88 pp2 dp4 tp2": for people
  bool same_model(const Measurement& other) const;
  bool same_plan(const Measurement& other) const;  // of the same model
};

// Throws Error that names file, line and column.
std::vector<Measurement> read_measurements(const std::string& path);

}  // namespace espalier::bench
