#include "planner/core/model/coefficient_window.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/model/degree_factor.hpp"

namespace espalier {
namespace {

struct GpuAccess {
  double GpuCoefficients::*value;
  bool GpuCoefficients::*assumed;
};
constexpr GpuAccess kTimes[] = {{&GpuCoefficients::comp, &GpuCoefficients::assumed_comp},
                                {&GpuCoefficients::backward, &GpuCoefficients::assumed_backward},
                                {&GpuCoefficients::optim, &GpuCoefficients::assumed_optim}};
constexpr double JobCoefficients::*kSizes[] = {&JobCoefficients::activ_bytes,       &JobCoefficients::param_bytes,
                                               &JobCoefficients::param_optim_bytes, &JobCoefficients::weight_bytes,
                                               &JobCoefficients::activ_p_bytes,     &JobCoefficients::activ_np_bytes,
                                               &JobCoefficients::tied_bytes};
constexpr double EdgeCoefficients::*kEdgeSizes[] = {
    &EdgeCoefficients::param_bytes, &EdgeCoefficients::param_optim_bytes, &EdgeCoefficients::activation_bytes};

// Of profiles that are not calm: how many are kept, and the largest standard error of their mean.
constexpr std::size_t kMostTold = 64;
constexpr double kMostError = 0.03;

// Sizes decide whether a plan fits. Their fluctuation therefore counts even where it hardly changes
// the iteration time.
enum class Kind { size, speed };

// Calls visit(value, unit, kind) for every coefficient, in the same order for every profile of a
// job. `unit` is the quantity to which the fluctuation is compared; 0: the coefficient's own mean.
template <class Job, class Visit>
void for_each(Job& job, Visit visit) {
  for (const auto size : kSizes) visit(job.*size, 0.0, Kind::size);
  visit(job.deferred, 1.0, Kind::speed);
  visit(job.sync_beyond, 0.0, Kind::speed);
  visit(job.rail_ms_per_byte, 0.0, Kind::speed);
  for (auto* edge : {&job.first, &job.last}) {
    for (const auto size : kEdgeSizes) visit(edge->*size, 0.0, Kind::size);
    visit(edge->compute_layers, static_cast<double>(job.layers), Kind::speed);
  }
  for (auto& gpu : job.gpu) {
    for (const GpuAccess& time : kTimes) visit(gpu.*time.value, 0.0, Kind::speed);
    visit(gpu.overlap, 1.0, Kind::speed);
  }
}

// k_overlap is averaged as 1 / k.
JobCoefficients inverted(JobCoefficients job) {
  for (GpuCoefficients& gpu : job.gpu) gpu.overlap = 1 / gpu.overlap;
  return job;
}

JobCoefficients with(JobCoefficients job, std::size_t which, double value) {
  std::size_t i = 0;
  for_each(job, [&](double& one, double, Kind) {
    if (i++ == which) one = value;
  });
  return inverted(std::move(job));
}

}  // namespace

void CoefficientWindow::add(JobCoefficients coefficients, const IterationModel& iteration) {
  ESPALIER_INVARIANT(!latest_ || latest_->gpu.size() == coefficients.gpu.size());
  latest_ = coefficients;
  window_.push_back(inverted(std::move(coefficients)));
  if (window_.size() > static_cast<std::size_t>(limits_.profiles)) window_.pop_front();
  stable_ = calm(iteration);
  if (!stable_) return;
  JobCoefficients found = inverted(means());
  settled_ = settled_ ? refine(*settled_, std::move(found)) : std::move(found);
}

void CoefficientWindow::add_told(JobCoefficients coefficients, bool calm) {
  latest_ = coefficients;
  if (!calm) {
    window_.push_back(inverted(coefficients));
    if (window_.size() > kMostTold) window_.pop_front();
    if ((stable_ && !by_mean_) || !mean_is_known()) return;
    coefficients = inverted(means());
  }
  by_mean_ = !calm;
  stable_ = true;
  settled_ = settled_ ? refine(*settled_, std::move(coefficients)) : std::move(coefficients);
}

bool CoefficientWindow::mean_is_known() const {
  if (window_.size() < static_cast<std::size_t>(limits_.profiles)) return false;
  const auto count = static_cast<double>(window_.size());
  for (std::size_t type = 0; type < window_.front().gpu.size(); ++type) {
    double sum = 0, squares = 0;
    for (const JobCoefficients& job : window_) {
      const double time = job.gpu[type].comp * (1 + job.gpu[type].backward);
      sum += time;
      squares += time * time;
    }
    const double mean = sum / count, variance = std::max(0.0, squares / count - mean * mean) * count / (count - 1);
    if (!(std::sqrt(variance / count) <= kMostError * mean)) return false;
  }
  return true;
}

bool CoefficientWindow::calm(const IterationModel& iteration) const {
  if (window_.size() < static_cast<std::size_t>(limits_.profiles)) return false;
  struct Range {
    double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0, unit = 0;
    Kind kind = Kind::size;
  };
  std::vector<Range> ranges;
  for (const JobCoefficients& job : window_) {
    std::size_t i = 0;
    for_each(job, [&](double value, double unit, Kind kind) {
      if (i == ranges.size()) ranges.emplace_back();
      Range& range = ranges[i++];
      range.least = std::min(range.least, value);
      range.greatest = std::max(range.greatest, value);
      range.sum += value;
      range.unit = unit;
      range.kind = kind;
    });
  }
  const JobCoefficients mean = means();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Range& range = ranges[i];
    const double size = range.unit > 0 ? range.unit : range.sum / static_cast<double>(window_.size());
    if (range.greatest - range.least <= limits_.fluctuation * size) continue;
    if (range.kind == Kind::size) return false;
    const double least = iteration(with(mean, i, range.least)), greatest = iteration(with(mean, i, range.greatest));
    if (!(std::abs(greatest - least) <= limits_.fluctuation * std::min(least, greatest))) return false;
  }
  return true;
}

JobCoefficients CoefficientWindow::means() const {
  std::vector<double> sums;
  for (const JobCoefficients& job : window_) {
    std::size_t i = 0;
    for_each(job, [&](double value, double, Kind) {
      if (i == sums.size()) sums.push_back(0);
      sums[i++] += value;
    });
  }
  JobCoefficients result = window_.back();
  std::size_t i = 0;
  for_each(result, [&](double& value, double, Kind) { value = sums[i++] / static_cast<double>(window_.size()); });
  return result;
}

std::optional<JobCoefficients> CoefficientWindow::coefficients() const { return settled_ ? settled_ : latest_; }

JobCoefficients refine(const JobCoefficients& before, JobCoefficients fresh) {
  const JobCoefficients known = told_for_degree(before, told_degree(fresh));
  add_known_degrees(known, fresh);
  for (std::size_t type = 0; type < std::min(known.gpu.size(), fresh.gpu.size()); ++type) {
    const GpuCoefficients& old = known.gpu[type];
    GpuCoefficients& now = fresh.gpu[type];
    const auto keep = [&](double GpuCoefficients::*value, bool GpuCoefficients::*assumed) {
      if (!(now.*assumed) || old.*assumed) return;
      now.*value = old.*value;
      now.*assumed = false;
    };
    for (const GpuAccess& time : kTimes) keep(time.value, time.assumed);
    if (known.sums_by_unit != fresh.sums_by_unit) continue;  // their overlaps are not of the same thing
    if (now.assumed_overlap && !old.assumed_overlap) fresh.sync_beyond = known.sync_beyond;
    keep(&GpuCoefficients::overlap, &GpuCoefficients::assumed_overlap);
  }
  if (fresh.assumed_rail && !known.assumed_rail) {
    fresh.rail_ms_per_byte = known.rail_ms_per_byte;
    fresh.assumed_rail = false;
  }
  for (const auto edge : {&JobCoefficients::first, &JobCoefficients::last})
    if ((fresh.*edge).assumed_compute && !(known.*edge).assumed_compute) {
      (fresh.*edge).compute_layers = (known.*edge).compute_layers;
      (fresh.*edge).assumed_compute = false;
    }
  if (fresh.boundary_assumed && !known.boundary_assumed) {
    fresh.activ_bytes = known.activ_bytes;
    fresh.boundary_assumed = false;
  }
  if (fresh.memory_assumed && !known.memory_assumed) {
    fresh.activ_p_bytes = known.activ_p_bytes;
    fresh.activ_np_bytes = known.activ_np_bytes;
    fresh.memory_assumed = false;
  }
  return fresh;
}

JobCoefficients blend(const JobCoefficients& before, const JobCoefficients& fresh, double weight) {
  // Without factors k_comp contains the fixed part of a layer's time, and with them it does not: two such times have no
  // mean. The one with factors is kept.
  if (fresh.degree_factors.empty() && !before.degree_factors.empty()) return refine(fresh, before);
  const int told = told_degree(fresh);
  const JobCoefficients known = told_for_degree(before, told);
  JobCoefficients result = refine(known, fresh);
  if (before.degree_factors.empty() != fresh.degree_factors.empty()) return result;
  if (!degree_is_measured(before, told)) return result;  // a first measurement is no second one of the same
  for (std::size_t type = 0; type < std::min(known.gpu.size(), fresh.gpu.size()); ++type) {
    const GpuCoefficients &old = known.gpu[type], &now = fresh.gpu[type];
    for (const GpuAccess& time : kTimes)
      if (!(old.*time.assumed) && !(now.*time.assumed))
        result.gpu[type].*time.value = old.*time.value + weight * (now.*time.value - old.*time.value);
    if (known.sums_by_unit != fresh.sums_by_unit) continue;
    if (!old.assumed_overlap && !now.assumed_overlap)
      result.sync_beyond = known.sync_beyond + weight * (fresh.sync_beyond - known.sync_beyond);
    if (!old.assumed_overlap && !now.assumed_overlap)
      result.gpu[type].overlap = 1 / (1 / old.overlap + weight * (1 / now.overlap - 1 / old.overlap));
  }
  if (!known.assumed_rail && !fresh.assumed_rail)
    result.rail_ms_per_byte = known.rail_ms_per_byte + weight * (fresh.rail_ms_per_byte - known.rail_ms_per_byte);
  const auto mean = [&](const EdgeCoefficients& old, const EdgeCoefficients& now, EdgeCoefficients& edge) {
    if (!old.assumed_compute && !now.assumed_compute)
      edge.compute_layers = old.compute_layers + weight * (now.compute_layers - old.compute_layers);
  };
  mean(known.first, fresh.first, result.first);
  mean(known.last, fresh.last, result.last);
  result.fixed_samples = known.fixed_samples + weight * (fresh.fixed_samples - known.fixed_samples);
  result.degree_factors = fresh.degree_factors;
  add_known_degrees(known, result);
  return result;
}

}  // namespace espalier
