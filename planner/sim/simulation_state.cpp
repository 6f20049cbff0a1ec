#include "planner/sim/simulation_state.hpp"

#include <algorithm>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::sim {

namespace {
int type_of_gpu(const Site& site, const GpuId& gpu) {
  const int node = site.topology.find(gpu.node);
  return node < 0 ? -1 : site.topology.gpu_types(node)[static_cast<std::size_t>(gpu.index)];
}
}  // namespace

// The type of the plan's first GPU.
int Simulation::type_of(const Plan& plan) const {
  return type_of_gpu(*input_.site, plan.stages.front().replicas.front().gpus.front());
}

std::set<int> Simulation::types_of(const Plan& plan) const {
  std::set<int> types;
  if (input_.site->hardware.types.size() == 1) return {0};
  for (const Stage& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      for (const GpuId& gpu : replica.gpus) types.insert(type_of_gpu(*input_.site, gpu));
  return types;
}

Prediction Simulation::predict(const LiveJob& job, const Plan& plan) const {
  if (const SpeedTable* measured = job.state.kind->measured.get()) {
    Prediction prediction;
    const auto seconds = measured->seconds(*input_.site, plan);
    prediction.feasible = seconds.has_value();
    if (seconds) prediction.exact_ms = prediction.printed_ms = *seconds * 1000;
    else prediction.why_not = "no time was measured on such GPUs";
    return prediction;
  }
  return evaluate_plan(input_.site->hardware, input_.site->topology, job.state.kind->coefficients, plan);
}

bool Simulation::feasible(const LiveJob& job, const Plan& plan) const { return predict(job, plan).feasible; }

double Simulation::true_step(const LiveJob& job, const Plan& plan) const {
  const Prediction prediction = predict(job, plan);
  if (!prediction.feasible)
    throw Error(policy_.name() + ": job " + std::to_string(job.state.id) + " (" + job.state.kind->model +
                ") cannot run on " + describe(plan) + ": " + prediction.why_not);
  return prediction.exact_ms / 1000;
}

void Simulation::run_on(LiveJob& job, ElasticJob& elastic, Plan plan, double step) {
  elastic.plan = plan;
  elastic.step_seconds = step;
  job.state.most_gpus = std::max(job.state.most_gpus, plan.gpu_count());
  job.state.plan = std::move(plan);
  job.state.step_seconds = step;
  job.state.last_change = input_.now;
  input_.last_change[job.state.id] = input_.now;
  job.training = true;
  ++job.speed_version;
  events_.add({job.expected_end(input_.now), EventKind::completion, job.state.id, job.speed_version});
}

void Simulation::hold_exactly(LiveJob& job, ElasticJob& elastic, const Plan& plan) {
  for (const Holding& held : elastic.anchor) holders_.own(held, 0);
  elastic.anchor = holdings_of(plan, job.state.id);
  for (const Holding& held : elastic.anchor) holders_.own(held, job.state.id);
  recount(job, elastic);
}

void Simulation::recount(LiveJob& job, const ElasticJob& elastic) {
  int held = 0;
  for (const std::vector<Holding>* holdings :
       {&elastic.anchor, &elastic.extensions, &std::as_const(job.bases.next), &std::as_const(job.bases.before)})
    for (const Holding& one : *holdings) held += static_cast<int>(one.gpus.size());
  allocated_ += held - job.held;
  job.held = held;
}

void Simulation::drop_extension(LiveJob& job, ElasticJob& elastic, JobId extension) {
  noticed_.erase(extension);
  holders_.drop_extension(elastic, extension);
  recount(job, elastic);
}

void Simulation::forget(JobId id) {
  input_.coefficients.erase(id);
  input_.last_change.erase(id);
  input_.redeploy_seconds.erase(id);
  input_.submitted.erase(id);
}

ElasticJob* Simulation::elastic_job(JobId id) {
  const auto at = std::lower_bound(input_.jobs.begin(), input_.jobs.end(), id,
                                   [](const ElasticJob& one, JobId wanted) { return one.id < wanted; });
  ESPALIER_INVARIANT(at != input_.jobs.end() && at->id == id);
  return &*at;
}

}  // namespace espalier::sim
