#include "planner/core/model/stage_rates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/core/model/communication_time.hpp"
#include "planner/core/model/degree_factor.hpp"

namespace espalier {
namespace {

struct ReplicaTimes {
  double comp_fwd = 0, comp_bwd = 0, comm_fwd = 0, comm_bwd = 0;
  double fwd() const { return comp_fwd + comm_fwd; }
  double bwd() const { return comp_bwd + comm_bwd; }
};

// "Modeling TP": times of one layer on one replica for `share` samples of a micro-batch.
ReplicaTimes replica_times(const Hardware& hardware, const JobCoefficients& job, const ReplicaClass& replicas, int tp,
                           int share) {
  const GpuCoefficients& gpu = job.gpu[static_cast<std::size_t>(replicas.type)];
  ReplicaTimes times;
  times.comp_fwd = gpu.comp * samples_of_work(job, share, tp);
  times.comp_bwd = gpu.backward * times.comp_fwd;
  if (tp > 1) {
    // Each layer does two all-reduces of k_activ * b bytes each.
    times.comm_fwd = 2 * tensor_sum_ms(hardware, replicas.kind, tp, job.activ_bytes * share);
    times.comm_bwd = times.comm_fwd;
  }
  if (job.recompute) {
    times.comp_bwd += times.comp_fwd;
    times.comm_bwd += times.comm_fwd;
  }
  return times;
}

}  // namespace

Shares balance_shares(const Hardware& hardware, const JobCoefficients& job, const StageShape& shape, int micro_batch,
                      bool equal_shares) {
  Shares shares;
  const int count = shape.class_count;
  if (shape.replicas <= 0 || micro_batch < shape.replicas) return shares;
  if (equal_shares && micro_batch % shape.replicas != 0) return shares;
  shares.feasible = true;
  if (count == 1 || equal_shares) {
    const int least = micro_batch / shape.replicas, rest = micro_batch % shape.replicas;
    for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) {
      shares.most[c] = rest > 0 ? least + 1 : least;
      shares.more[c] = rest > 0 ? rest : shape.classes[c].replicas;
    }
    return shares;
  }
  // A replica takes `fixed` whatever its share is, and `cost` for each sample. `cost` is that of the mean share: TP
  // communication makes it depend on the share, but weakly.
  std::array<double, StageShape::kMaxClasses> fixed{}, cost{};
  double speed = 0, fixed_samples = 0;
  const int mean = std::max(1, micro_batch / shape.replicas);
  for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) {
    const auto times = replica_times(hardware, job, shape.classes[c], shape.tp, mean);
    const GpuCoefficients& gpu = job.gpu[static_cast<std::size_t>(shape.classes[c].type)];
    fixed[c] = gpu.comp * job.fixed_samples * (1 + gpu.backward + (job.recompute ? 1 : 0));
    cost[c] = (times.fwd() + times.bwd() - fixed[c]) / mean;
    speed += shape.classes[c].replicas / cost[c];
    fixed_samples += shape.classes[c].replicas * fixed[c] / cost[c];
  }
  const double slowest = (micro_batch + fixed_samples) / speed;  // replica, if shares were continuous
  const auto time = [&](std::size_t c, int share) { return fixed[c] + share * cost[c]; };
  // Weighted min-max (App. B): the continuous solution is rounded down. The remaining samples go
  // one by one to the class where they cost least, to all replicas of a class at once.
  std::array<int, StageShape::kMaxClasses> base{};
  int given = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) {
    base[c] = std::max(1, static_cast<int>((slowest - fixed[c]) / cost[c]));
    given += base[c] * shape.classes[c].replicas;
  }
  while (given > micro_batch) {
    std::size_t heaviest = 0;
    double most = -1;
    for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c)
      if (base[c] > 1 && time(c, base[c]) > most) most = time(heaviest = c, base[c]);
    --base[heaviest];
    given -= shape.classes[heaviest].replicas;
  }
  for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) shares.more[c] = shape.classes[c].replicas;
  for (int rest = micro_batch - given; rest > 0;) {
    std::size_t lightest = 0;
    for (std::size_t c = 1; c < static_cast<std::size_t>(count); ++c)
      if (time(c, base[c] + 1) < time(lightest, base[lightest] + 1)) lightest = c;
    const int taken = std::min(rest, static_cast<int>(shape.classes[lightest].replicas));
    ++base[lightest];
    shares.more[lightest] = taken;
    rest -= taken;
  }
  for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) shares.most[c] = base[c];
  return shares;
}

StageRates stage_rates(const Hardware& hardware, const JobCoefficients& job, const StageShape& shape,
                       const Shares& shares, bool with_extra) {
  StageRates rates;
  if (!shares.feasible) return rates;
  rates.feasible = true;
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape.class_count); ++c) {
    const auto times = replica_times(hardware, job, shape.classes[c], shape.tp, shares.most[c]);
    const GpuCoefficients& gpu = job.gpu[static_cast<std::size_t>(shape.classes[c].type)];
    if (times.bwd() > rates.bwd) rates.overlap = gpu.overlap;
    rates.fwd = std::max(rates.fwd, times.fwd());
    rates.bwd = std::max(rates.bwd, times.bwd());
    rates.comp_fwd = std::max(rates.comp_fwd, times.comp_fwd);
    rates.comp_bwd = std::max(rates.comp_bwd, times.comp_bwd);
    rates.optim = std::max(rates.optim, gpu.optim / shape.tp);
  }
  if (job.zero1) rates.optim /= shape.replicas;
  if (shape.replicas > 1) rates.optim += job.sync_beyond * (shape.replicas - 1) / shape.replicas;
  rates.gradient_ms_per_byte = gradient_rate(hardware, shape, job.rail_ms_per_byte);
  rates.extra = with_extra ? stage_extra(job, rates) : std::numeric_limits<double>::quiet_NaN();
  return rates;
}

double stage_extra(const JobCoefficients& job, const StageRates& rates) {
  if (job.sums_by_unit) return rates.optim;
  return exposed_gradients(job, rates.bwd, rates.gradient_ms_per_byte * job.param_bytes, rates.overlap) + rates.optim;
}

double exposed_sync(double bwd, double gradient, double overlap) {
  if (gradient <= 0) return 0;
  if (overlap <= 1 || bwd <= 0) return gradient;
  const double larger = std::max(bwd, gradient), smaller = std::min(bwd, gradient);
  const double k = std::min(overlap, 64.0);
  return larger * std::pow(1 + std::pow(smaller / larger, k), 1 / k) - bwd;
}

double exposed_gradients(const JobCoefficients& job, double bwd, double gradient, double overlap) {
  const SyncParts parts = sync_parts(job, gradient);
  return exposed_sync(bwd, parts.sum, overlap) + parts.gather;
}

SyncParts sync_parts(const JobCoefficients& job, double gradient) {
  if (!job.zero1) return {gradient, 0};
  // Scattering and gathering are half of a sum each.
  const double weights = job.param_bytes > 0 && job.weight_bytes > 0 ? job.weight_bytes / job.param_bytes : 1;
  return {job.integer_sums ? gradient : gradient / 2, weights * gradient / 2};
}

}  // namespace espalier
