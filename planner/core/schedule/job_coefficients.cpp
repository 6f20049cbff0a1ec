#include "planner/core/schedule/job_coefficients.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/model/iteration_profile.hpp"
#include "planner/core/model/sheet_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/job_site.hpp"

namespace espalier {
namespace {

ModelShape known_shape(const ElasticJob& job) {
  ModelShape shape = job.model;
  if (job.plan) {
    shape.layers = job.plan->total_layers();
    shape.global_batch = job.plan->global_batch;
  }
  try {
    model_sizes(shape, {}, 1);
    return shape;
  } catch (const Error&) {
    shape.family = "gpt2";
    for (int* size : {&shape.hidden, &shape.heads, &shape.sequence, &shape.vocabulary}) *size = std::max(*size, 1);
    return shape;
  }
}

Training training_for(const ElasticJob& job, const ModelShape& shape) {
  Training training = training_of(shape, job.accuracy == Accuracy::bitwise);
  training.in_parts = !forms_of(job).empty() || told_lists(job) != nullptr;
  return training;
}

}  // namespace

JobCoefficients assumed_for(const ElasticJob& job, const Site& site) {
  const double step_ms = job.step_seconds > 0 ? job.step_seconds * 1000 : 1;
  const ModelShape shape = known_shape(job);
  return assumed_coefficients(site.hardware, site_for(site, job).topology, shape, training_for(job, shape), *job.plan,
                              step_ms, told_lists(job));
}

JobCoefficients sheet_for(const ElasticJob& job, const Site& site) {
  const ModelShape shape = known_shape(job);
  return sheet_coefficients(shape, training_for(job, shape), site.hardware);
}

}  // namespace espalier
