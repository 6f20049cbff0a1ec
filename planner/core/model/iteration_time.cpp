#include "planner/core/model/iteration_time.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "planner/core/model/unit_sums.hpp"

namespace espalier {

StageLoad stage_load(const JobCoefficients& job, int layers, bool first, bool last) {
  StageLoad load{static_cast<double>(layers), layers * job.param_bytes};
  if (first) load.compute_layers += job.first.compute_layers, load.gradient_bytes += job.first.param_bytes;
  if (last) load.compute_layers += job.last.compute_layers, load.gradient_bytes += job.last.param_bytes;
  if (first && last && job.tied_bytes > 0) load.gradient_bytes -= std::min(job.first.param_bytes, job.last.param_bytes);
  return load;
}

double stage_sync(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last) {
  if (!(rates.gradient_ms_per_byte > 0)) return 0;
  if (job.sums_by_unit) return exposed_unit_sums(job, rates, layers, first, last);
  const StageLoad load = stage_load(job, layers, first, last);
  const double backward = layers * rates.bwd + (load.compute_layers - layers) * rates.comp_bwd;
  return exposed_gradients(job, backward, load.gradient_bytes * rates.gradient_ms_per_byte, rates.overlap);
}

StageTime stage_time(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last) {
  StageTime time{layers * rates.fwd, layers * rates.bwd, 0, 0};
  const StageLoad load = stage_load(job, layers, first, last);
  time.late = job.deferred * load.compute_layers * rates.comp_bwd;
  const double more = load.compute_layers - layers;
  const double optim = job.param_bytes > 0 ? rates.optim * load.gradient_bytes / job.param_bytes : layers * rates.optim;
  if (!job.sums_by_unit && more == 0 && load.gradient_bytes == layers * job.param_bytes) {
    time.extra = layers * (std::isnan(rates.extra) ? stage_extra(job, rates) : rates.extra);
    return time;
  }
  time.fwd += more * rates.comp_fwd;
  time.bwd += more * rates.comp_bwd;
  time.extra = stage_sync(job, rates, layers, first, last) + optim;
  return time;
}

double printed_iteration(std::span<const StageTime> stages, int micro_batches) {
  return formed_iteration(stages, micro_batches, 1, 1);
}

double formed_iteration(std::span<const StageTime> stages, int micro_batches, double fill, double drain) {
  double sum = 0, slowest = 0, hidden = 0, tail = 0;
  for (const StageTime& stage : stages) {
    const double both = stage.fwd + stage.bwd;
    sum += both;
    slowest = std::max(slowest, both);
    tail = std::max(tail, stage.extra - hidden);
    hidden += drain * stage.bwd;
  }
  return fill * sum + (micro_batches - fill) * slowest + tail;
}

double exact_iteration(std::span<const StageTime> stages, int micro_batches) {
  const int count = static_cast<int>(stages.size());
  // In wave m every stage does F(m) and then B(m - w), where w is its warm-up. An operation waits
  // only for forwards of the same wave and for operations of the wave before.
  std::vector<double> free(stages.size(), 0.0), backward(stages.size(), 0.0);
  double end = 0;
  const std::int64_t waves = std::int64_t{micro_batches} + count - 1;
  for (std::int64_t wave = 0; wave < waves; ++wave) {
    double arrived = 0;
    if (wave < micro_batches)
      for (int i = 0; i < count; ++i) {
        const auto s = static_cast<std::size_t>(i);
        free[s] = std::max(free[s], arrived) + stages[s].fwd;
        arrived = free[s] + stages[s].send;
      }
    for (int i = 0; i < count; ++i) {
      const auto s = static_cast<std::size_t>(i);
      const std::int64_t micro_batch = wave - (count - 1 - i);
      if (micro_batch < 0 || micro_batch >= micro_batches) continue;
      const double gradient = i + 1 < count ? backward[s + 1] + stages[s].send : 0;
      free[s] = std::max(free[s], gradient) + stages[s].bwd;
      backward[s] = free[s] - stages[s].late;
      if (micro_batch == micro_batches - 1) end = std::max(end, free[s] + stages[s].extra);
    }
  }
  return end;
}

}  // namespace espalier
