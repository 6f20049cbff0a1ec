#include "planner/core/data_parallel.hpp"

#include <algorithm>

#include "planner/core/job.hpp"

namespace espalier {

ModelShape data_parallel_shape(int global_batch, const std::vector<int>& units, const std::string& program) {
  ModelShape shape;
  shape.family = kDataFamily;
  shape.layers = shape.hidden = shape.sequence = 1;
  shape.heads = units.front();
  if (units.size() > 1) {
    shape.units = units;
    std::sort(shape.units.begin(), shape.units.end());
  }
  shape.global_batch = global_batch;
  shape.micro_batches = 1;
  if (!program.empty()) shape.setting = TrainingSetting{program, "", "", "", false, false};
  return shape;
}

ParallelLimits data_parallel_limits(const std::vector<int>& units) {
  ParallelLimits limits;
  limits.pp = 1;
  limits.micro_batches = 1;
  if (units.size() > 1) limits.tp_degrees = units;
  else limits.tp = units.front();
  return limits;
}

bool has_several_units(const ModelShape& shape) { return shape.family == kDataFamily && shape.units.size() > 1; }

int largest_unit(const ParallelLimits& limits) {
  int most = std::max(1, limits.tp);
  for (const int unit : limits.tp_degrees) most = std::max(most, unit);
  return most;
}

bool data_parallel_only(const ElasticJob& job) { return job.model.family == kDataFamily; }

}  // namespace espalier
