#include "planner/core/model/least_time.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/core/model/degree_factor.hpp"

namespace espalier {
namespace {

// Multiples of a layer's computation in the whole model.
double compute_layers(const JobCoefficients& job) {
  return job.layers + job.first.compute_layers + job.last.compute_layers;
}

}  // namespace

double least_gpu_ms(const JobCoefficients& job, int type) {
  const GpuCoefficients& gpu = job.gpu[static_cast<std::size_t>(type)];
  const double passes = 1 + gpu.backward + (job.recompute ? 1 : 0);
  return job.global_batch * compute_layers(job) * gpu.comp * least_degree_factor(job) * passes + job.layers * gpu.optim;
}

double least_step_ms(const JobCoefficients& job, const Hardware& hardware, const std::vector<int>& gpus) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double speed = 0, path = kNever, fastest_link = 0;
  for (const NodeKind& node : hardware.kinds) fastest_link = std::max(fastest_link, node.tp_bandwidth);
  for (std::size_t t = 0; t < gpus.size(); ++t) {
    if (gpus[t] == 0) continue;
    speed += gpus[t] / least_gpu_ms(job, static_cast<int>(t));
    const GpuCoefficients& gpu = job.gpu[t];
    // A stage need not wait for the deferred part of the backward pass of the next one.
    const double passes = 1 + (gpu.backward + (job.recompute ? 1 : 0)) * (1 - job.deferred);
    for (const int tp : job.tp_degrees) {
      // Two all-reduces a layer and pass, at full bandwidth.
      const double sent = tp > 1 ? 2 * job.activ_bytes * 2 * (1 - 1.0 / tp) / fastest_link : 0;
      const double computed = compute_layers(job) * gpu.comp * degree_factor(job, tp) / tp * passes;
      path = std::min(path, computed + job.layers * sent * (job.recompute ? 3 : 2));
    }
  }
  return speed > 0 ? std::max(1 / speed, path) : kNever;
}

double least_step_ms(const JobCoefficients& job, const Hardware& hardware, std::vector<int> gpus, int most) {
  std::vector<std::size_t> fastest_first(gpus.size());
  std::iota(fastest_first.begin(), fastest_first.end(), std::size_t{0});
  std::stable_sort(fastest_first.begin(), fastest_first.end(), [&](std::size_t a, std::size_t b) {
    return least_gpu_ms(job, static_cast<int>(a)) < least_gpu_ms(job, static_cast<int>(b));
  });
  for (const std::size_t type : fastest_first) {
    gpus[type] = std::clamp(gpus[type], 0, std::max(most, 0));
    most -= gpus[type];
  }
  return least_step_ms(job, hardware, gpus);
}

}  // namespace espalier
