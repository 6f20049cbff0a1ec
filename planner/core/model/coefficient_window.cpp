#include "planner/core/model/coefficient_window.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/core/error.hpp"

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

// visit(value, unit): every coefficient as a number to average, and the least that its fluctuation is in proportion to.
// The same sequence for every profile of a job.
template <class Job, class Visit>
void for_each(Job& job, Visit visit) {
  for (const auto size : kSizes) visit(job.*size, 0.0);
  visit(job.deferred, 1.0);
  for (auto* edge : {&job.first, &job.last}) {
    for (const auto size : kEdgeSizes) visit(edge->*size, 0.0);
    visit(edge->compute_layers, static_cast<double>(job.layers));
  }
  for (auto& gpu : job.gpu) {
    for (const GpuAccess& time : kTimes) visit(gpu.*time.value, 0.0);
    visit(gpu.overlap, 1.0);
  }
}

// k_overlap is averaged as 1 / k.
JobCoefficients inverted(JobCoefficients job) {
  for (GpuCoefficients& gpu : job.gpu) gpu.overlap = 1 / gpu.overlap;
  return job;
}

}  // namespace

void CoefficientWindow::add(JobCoefficients coefficients) {
  ESPALIER_INVARIANT(!latest_ || latest_->gpu.size() == coefficients.gpu.size());
  latest_ = coefficients;
  window_.push_back(inverted(std::move(coefficients)));
  if (window_.size() > static_cast<std::size_t>(limits_.profiles)) window_.pop_front();
  if (stable()) settled_ = settled_ ? refine(*settled_, means()) : means();
}

bool CoefficientWindow::stable() const {
  if (window_.size() < static_cast<std::size_t>(limits_.profiles)) return false;
  struct Range {
    double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0, unit = 0;
  };
  std::vector<Range> ranges;
  for (const JobCoefficients& job : window_) {
    std::size_t i = 0;
    for_each(job, [&](double value, double unit) {
      if (i == ranges.size()) ranges.emplace_back();
      Range& range = ranges[i++];
      range.least = std::min(range.least, value);
      range.greatest = std::max(range.greatest, value);
      range.sum += value;
      range.unit = unit;
    });
  }
  return std::all_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    const double mean = range.sum / static_cast<double>(window_.size());
    return range.greatest - range.least <= limits_.fluctuation * (range.unit > 0 ? range.unit : mean);
  });
}

JobCoefficients CoefficientWindow::means() const {
  std::vector<double> sums;
  for (const JobCoefficients& job : window_) {
    std::size_t i = 0;
    for_each(job, [&](double value, double) {
      if (i == sums.size()) sums.push_back(0);
      sums[i++] += value;
    });
  }
  JobCoefficients result = window_.back();
  std::size_t i = 0;
  for_each(result, [&](double& value, double) { value = sums[i++] / static_cast<double>(window_.size()); });
  return inverted(std::move(result));
}

std::optional<JobCoefficients> CoefficientWindow::coefficients() const { return settled_ ? settled_ : latest_; }

JobCoefficients refine(const JobCoefficients& known, JobCoefficients fresh) {
  for (std::size_t type = 0; type < std::min(known.gpu.size(), fresh.gpu.size()); ++type) {
    const GpuCoefficients& old = known.gpu[type];
    GpuCoefficients& now = fresh.gpu[type];
    const auto keep = [&](double GpuCoefficients::*value, bool GpuCoefficients::*assumed) {
      if (!(now.*assumed) || old.*assumed) return;
      now.*value = old.*value;
      now.*assumed = false;
    };
    for (const GpuAccess& time : kTimes) keep(time.value, time.assumed);
    keep(&GpuCoefficients::overlap, &GpuCoefficients::assumed_overlap);
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

}  // namespace espalier
