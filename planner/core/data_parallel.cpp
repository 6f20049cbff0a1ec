#include "planner/core/data_parallel.hpp"

#include "planner/core/job.hpp"

namespace espalier {

ModelShape data_parallel_shape(int global_batch, int unit, const std::string& program) {
  ModelShape shape;
  shape.family = kDataFamily;
  shape.layers = shape.hidden = shape.sequence = 1;
  shape.heads = unit;
  shape.global_batch = global_batch;
  shape.micro_batches = 1;
  if (!program.empty()) shape.setting = TrainingSetting{program, "", "", "", false, false};
  return shape;
}

ParallelLimits data_parallel_limits(int unit) {
  ParallelLimits limits;
  limits.pp = 1;
  limits.tp = unit;
  limits.micro_batches = 1;
  return limits;
}

bool data_parallel_only(const ElasticJob& job) { return job.model.family == kDataFamily; }

}  // namespace espalier
