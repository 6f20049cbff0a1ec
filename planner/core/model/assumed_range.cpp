#include "planner/core/model/assumed_range.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/core/model/degree_factor.hpp"

namespace espalier {
namespace {

constexpr double kSlowerType = 1.5;
// What is assumed of a type or of a TP degree is seldom this many times too slow.
constexpr double kAssumedTooSlow = 1.5;
constexpr double kOptimizerShare = 0.05;
constexpr double kLargerBoundary = 2, kLargerGradients = 2;
constexpr double kFirstEdge = 0.5, kHeavierHead = 1.5;  // layers, factor

bool nothing_measured(const JobCoefficients& job) {
  return std::all_of(job.gpu.begin(), job.gpu.end(), [](const GpuCoefficients& gpu) { return gpu.assumed_comp; });
}

// The last edge takes more of the computation, and the layers less, so that an iteration on one GPU
// takes as long as before.
void weigh_edges(JobCoefficients& job) {
  const double before = job.layers + job.first.compute_layers + job.last.compute_layers;
  if (job.first.assumed_compute) job.first.compute_layers = std::max(job.first.compute_layers, kFirstEdge);
  if (job.last.assumed_compute) job.last.compute_layers *= kHeavierHead;
  const double after = job.layers + job.first.compute_layers + job.last.compute_layers;
  if (!(after > before)) return;
  for (GpuCoefficients& gpu : job.gpu) gpu.comp *= before / after;
}

}  // namespace

std::vector<CoefficientState> coefficient_states(const JobCoefficients& job, const Hardware& hardware) {
  std::vector<CoefficientState> states;
  for (std::size_t t = 0; t < std::min(job.gpu.size(), hardware.types.size()); ++t) {
    const GpuCoefficients& gpu = job.gpu[t];
    const std::string type = "." + hardware.types[t].name;
    states.push_back({"computation" + type, !gpu.assumed_comp});
    states.push_back({"backward" + type, !gpu.assumed_backward});
    states.push_back({"optimizer" + type, !gpu.assumed_optim});
    states.push_back({"overlap" + type, !gpu.assumed_overlap});
  }
  states.push_back({"boundary", !job.boundary_assumed});
  if (job.tp_degrees.size() > 1) states.push_back({"degrees", job.degree_factors.size() > 1});
  states.push_back({"network", !job.assumed_rail});
  states.push_back({"first_edge", !job.first.assumed_compute});
  states.push_back({"last_edge", !job.last.assumed_compute});
  states.push_back({"memory", !job.memory_assumed});
  return states;
}

bool gain_is_assumed(const JobCoefficients& job, const std::vector<bool>& types) {
  if (job.boundary_assumed || job.first.assumed_compute || job.last.assumed_compute) return true;
  for (std::size_t t = 0; t < std::min(job.gpu.size(), types.size()); ++t) {
    const GpuCoefficients& gpu = job.gpu[t];
    if (types[t] && (gpu.assumed_comp || gpu.assumed_backward || gpu.assumed_optim || gpu.assumed_overlap)) return true;
  }
  return false;
}

JobCoefficients worst_of_assumed(const JobCoefficients& job) {
  JobCoefficients worst = job;
  const bool all = nothing_measured(job);
  for (GpuCoefficients& gpu : worst.gpu) {
    if (gpu.assumed_comp && !all) gpu.comp *= kSlowerType;
    if (gpu.assumed_overlap) gpu.overlap = 1;
    if (gpu.assumed_optim)
      gpu.optim = std::max(gpu.optim, kOptimizerShare * gpu.comp * (1 + gpu.backward) * job.global_batch);
  }
  if (job.boundary_assumed) worst.activ_bytes *= kLargerBoundary;
  if (all) {
    worst.param_bytes *= kLargerGradients;
    worst.first.param_bytes *= kLargerGradients;
    worst.last.param_bytes *= kLargerGradients;
  }
  count_unmeasured_degrees_as_worst(worst);
  weigh_edges(worst);
  return worst;
}

JobCoefficients fastest_of_assumed(JobCoefficients job) {
  if (std::all_of(job.gpu.begin(), job.gpu.end(), [](const GpuCoefficients& gpu) { return gpu.assumed_backward; }))
    job.deferred = 1;
  for (GpuCoefficients& gpu : job.gpu) {
    if (gpu.assumed_comp) gpu.comp /= kAssumedTooSlow;
    if (gpu.assumed_backward) gpu.backward = std::min(gpu.backward, 1.0);
    if (gpu.assumed_optim) gpu.optim = 0;
    if (gpu.assumed_overlap) gpu.overlap = kMostOverlap;
  }
  for (EdgeCoefficients* edge : {&job.first, &job.last})
    if (edge->assumed_compute) edge->compute_layers = 0;
  if (job.boundary_assumed) job.activ_bytes = 0;
  if (job.degree_factors.empty()) return job;
  std::vector<DegreeFactor> factors;
  for (const int tp : job.tp_degrees)
    factors.push_back({tp, degree_factor(job, tp) / (degree_is_measured(job, tp) ? 1 : kAssumedTooSlow)});
  job.degree_factors = std::move(factors);
  return job;
}

void count_as_measured(JobCoefficients& job) {
  for (GpuCoefficients& gpu : job.gpu)
    gpu.assumed_comp = gpu.assumed_backward = gpu.assumed_optim = gpu.assumed_overlap = false;
  job.first.assumed_compute = job.last.assumed_compute = job.boundary_assumed = job.memory_assumed = job.assumed_rail =
      false;
}

}  // namespace espalier
