// Clusters and jobs for the scheduler's tests.
#pragma once

#include <random>

#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier::test {

inline NodeView node(const std::string& name, int gpus, const std::string& leaf = "leaf1",
                     const std::string& type = "h100") {
  NodeView view;
  view.name = name;
  view.gpu_type = type;
  view.switches = {"spine", leaf};
  view.gpu_owner.assign(static_cast<std::size_t>(gpus), 0);
  view.free_cpus = 16;
  view.free_memory_mb = 16000;
  return view;
}

inline void hold(ClusterView& cluster, const Holding& held) {
  for (NodeView& view : cluster.nodes)
    if (view.name == held.node)
      for (const int gpu : held.gpus) view.gpu_owner[static_cast<std::size_t>(gpu)] = held.job;
}

// A running job of 8 layers and 4 micro-batches of one sample. Replicas cannot share one sample, so
// the job has one pipeline stage per GPU of its anchor.
inline ElasticJob job(JobId id, const std::string& on, const std::vector<int>& gpus, int max_gpus = 8) {
  ElasticJob result;
  result.id = id;
  result.uid = 1000;
  result.min_gpus = 1;
  result.max_gpus = max_gpus;
  result.model = {"gpt2", 8, 512, 8, 256, 1000, 4, 4};
  result.parallel.micro_batches = 4;
  result.phase = JobPhase::running;
  result.anchor = {{id, on, gpus}};
  std::vector<GpuId> order;
  for (const int gpu : gpus) order.push_back({on, gpu});
  result.plan = uniform_plan(static_cast<int>(order.size()), 1, 8, 4, 4, order);
  result.step_seconds = 1;
  return result;
}

inline void extend(ElasticJob& to, JobId extension, const std::string& on, const std::vector<int>& gpus) {
  to.extensions.push_back({extension, on, gpus});
  auto order = to.plan->ranks();
  for (const int gpu : gpus) order.push_back({on, gpu});
  to.plan = uniform_plan(static_cast<int>(order.size()), 1, to.model.layers, 4, 4, order);
}

// Gives the job more layers. The plan keeps its GPUs, one stage each.
inline void deepen(ElasticJob& job, int layers) {
  job.model.layers = layers;
  job.plan = uniform_plan(job.plan->gpu_count(), 1, layers, 4, 4, job.plan->ranks());
}

inline PlanningInput input_of(std::vector<NodeView> nodes, std::vector<ElasticJob> jobs) {
  PlanningInput input;
  input.now = 1000;
  input.cluster.nodes = std::move(nodes);
  for (const ElasticJob& one : jobs) {
    for (const Holding& held : one.anchor) hold(input.cluster, held);
    for (const Holding& held : one.extensions) hold(input.cluster, held);
  }
  input.jobs = std::move(jobs);
  return input;
}

// The cluster of the papers: GPUs of a node reach each other, whichever Slurm jobs of a training have them.
inline void let_jobs_reach(PlanningInput& input) {
  auto site = std::make_shared<Site>(*neutral_site(input.cluster));
  site->hardware.jobs_reach = true;
  input.site = std::move(site);
}

// For tests that are not about the threshold: every gain is accepted.
inline SchedulerOptions bold() {
  SchedulerOptions options;
  options.lambda = 8;
  return options;
}

inline std::vector<Decision> decide(const PlanningInput& input, const SchedulerOptions& options = bold()) {
  return make_suika_scheduler(options)->decide(input);
}

}  // namespace espalier::test
