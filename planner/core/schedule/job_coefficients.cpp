#include "planner/core/schedule/job_coefficients.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/model/iteration_profile.hpp"

namespace espalier {
namespace {

ModelShape known_shape(const ElasticJob& job) {
  ModelShape shape = job.model;
  shape.layers = job.plan->total_layers();
  shape.global_batch = job.plan->global_batch;
  try {
    model_sizes(shape, {}, 1);
    return shape;
  } catch (const Error&) {
    shape.family = "gpt2";
    for (int* size : {&shape.hidden, &shape.heads, &shape.sequence, &shape.vocabulary}) *size = std::max(*size, 1);
    return shape;
  }
}

}  // namespace

JobCoefficients assumed_for(const ElasticJob& job, const Site& site) {
  const double step_ms = job.step_seconds > 0 ? job.step_seconds * 1000 : 1;
  JobCoefficients coefficients =
      assumed_coefficients(site.hardware, site.topology, known_shape(job), {}, *job.plan, step_ms);
  // The training runtime cannot split a tensor further than the present plan does.
  int tp = 1;
  for (const Stage& stage : job.plan->stages) tp = std::max(tp, stage.tp);
  coefficients.tp_degrees = {tp};
  return coefficients;
}

}  // namespace espalier
