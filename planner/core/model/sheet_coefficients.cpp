#include "planner/core/model/sheet_coefficients.hpp"

#include "planner/core/model/roofline.hpp"

namespace espalier {

JobCoefficients sheet_coefficients(const ModelShape& shape, const Training& training, const Hardware& hardware) {
  JobCoefficients job = model_sizes(shape, training, hardware.types.size());
  job.global_batch = shape.global_batch;
  const bool by_bandwidth = bandwidths_known(hardware);
  const double traffic = compared_traffic(hardware, job.traffic_per_flop);
  for (std::size_t t = 0; t < hardware.types.size(); ++t) {
    const GpuType& type = hardware.types[t];
    GpuCoefficients& gpu = job.gpu[t];
    gpu.comp = layer_flops(shape) / flop_rate(type, traffic);
    gpu.backward = 2;
    gpu.overlap = job.sums_by_unit ? kMostOverlap : 2;
    // Adam reads and writes every byte of weights, gradients and optimizer state once.
    gpu.optim = by_bandwidth ? 2 * (job.param_optim_bytes + job.param_bytes) / type.memory_bandwidth : 0;
  }
  return job;
}

}  // namespace espalier
