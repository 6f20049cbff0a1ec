#include "planner/core/schedule/job_coefficients.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/solver/working_plan.hpp"

namespace espalier {
namespace {

JobCoefficients sizes_of(ModelShape shape, std::size_t types) {
  try {
    return model_sizes(shape, {}, types);
  } catch (const Error&) {
    shape.family = "gpt2";
    shape.hidden = std::max(shape.hidden, 1);
    shape.heads = std::max(shape.heads, 1);
    shape.sequence = std::max(shape.sequence, 1);
    shape.vocabulary = std::max(shape.vocabulary, 1);
    return model_sizes(shape, {}, types);
  }
}

}  // namespace

JobCoefficients assumed_for(const ElasticJob& job, const Site& site) {
  JobCoefficients coefficients = sizes_of(job.model, site.hardware.types.size());
  coefficients.global_batch = job.plan->global_batch;
  coefficients.layers = job.plan->total_layers();
  // The training runtime splits no tensor that the present plan does not split.
  int tp = 1;
  for (const Stage& stage : job.plan->stages) tp = std::max(tp, stage.tp);
  coefficients.tp_degrees = {tp};
  double fastest = 0;
  for (const GpuType& type : site.hardware.types) fastest = std::max(fastest, type.tflops);
  const auto set_comp = [&](double comp) {
    for (std::size_t t = 0; t < site.hardware.types.size(); ++t) {
      coefficients.gpu[t].comp = comp * fastest / site.hardware.types[t].tflops;
      coefficients.gpu[t].backward = 2;
      coefficients.gpu[t].overlap = 1;
      // Adam touches each parameter once a step: small beside the computation, and nothing here measures it.
      coefficients.gpu[t].optim = 0;
    }
  };
  // T is affine in k_comp: what remains of it at 0 is communication.
  const auto sketch = sketch_of(*job.plan, site);
  set_comp(1);
  if (!sketch || job.step_seconds <= 0) return coefficients;
  const PlanBounds free;
  const auto time_at = [&](double comp) {
    set_comp(comp);
    Evaluator evaluator(Problem{site.hardware, site.topology, coefficients, free});
    return evaluator.exact_sketch(*sketch);
  };
  const double measured = job.step_seconds * 1000;
  const double at_one = time_at(1), at_two = time_at(2);
  const double slope = at_two - at_one;
  // Where the assumed bandwidths alone take longer than the whole step, computation is still most of it.
  const double comp = slope > 0 ? std::max((measured - (at_one - slope)) / slope, measured / at_one / 2) : 1;
  set_comp(comp);
  return coefficients;
}

}  // namespace espalier
