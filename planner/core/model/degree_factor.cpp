#include "planner/core/model/degree_factor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace espalier {
namespace {

constexpr double kExpected = 1.25, kWorst = 1.5;
// Of a degree below all that were measured. Above 1, so that the size that runs is kept where nothing speaks for
// another.
constexpr double kCoarser = 1.01;
// A user's figures may say that one size is any times as slow as another. No such figure may overflow in a plan's time.
constexpr double kMostFactor = 1e6;

// `beyond`: the factor of a degree above all measured ones, in multiples of the largest measured one's. Between two
// measured ones it is kExpected times smaller.
double factor_of(const std::vector<DegreeFactor>& measured, int tp, double beyond) {
  if (measured.empty()) return 1;
  const auto above = std::lower_bound(measured.begin(), measured.end(), tp,
                                      [](const DegreeFactor& one, int degree) { return one.tp < degree; });
  if (above != measured.end() && above->tp == tp) return above->factor;
  if (above == measured.begin()) return above->factor * kCoarser;
  const DegreeFactor& below = *std::prev(above);
  if (above == measured.end()) return below.factor * beyond;
  // A division that is finer brings costs of its own, which grow with the logarithm of the degree.
  const double part =
      std::log2(static_cast<double>(tp) / below.tp) / std::log2(static_cast<double>(above->tp) / below.tp);
  return (below.factor + part * (above->factor - below.factor)) * beyond / kExpected;
}

}  // namespace

double degree_factor(const JobCoefficients& job, int tp) { return factor_of(job.degree_factors, tp, kExpected); }

double least_degree_factor(const JobCoefficients& job) {
  if (job.degree_factors.empty() || job.tp_degrees.empty()) return 1;
  double least = std::numeric_limits<double>::infinity();
  for (const int tp : job.tp_degrees) least = std::min(least, degree_factor(job, tp));
  return least;
}

double samples_of_work(const JobCoefficients& job, int share, int tp) {
  const double divided = static_cast<double>(share) / tp;
  return (job.degree_factors.empty() ? divided : divided * degree_factor(job, tp)) + job.fixed_samples;
}

bool degree_is_measured(const JobCoefficients& job, int tp) {
  return job.degree_factors.empty() || std::any_of(job.degree_factors.begin(), job.degree_factors.end(),
                                                   [&](const DegreeFactor& one) { return one.tp == tp; });
}

void count_unmeasured_degrees_as_worst(JobCoefficients& job) {
  if (job.degree_factors.empty()) return;
  const std::vector<DegreeFactor> measured = job.degree_factors;
  for (const int tp : job.tp_degrees)
    if (!degree_is_measured(job, tp)) job.degree_factors.push_back({tp, factor_of(measured, tp, kWorst)});
  std::sort(job.degree_factors.begin(), job.degree_factors.end(),
            [](const DegreeFactor& a, const DegreeFactor& b) { return a.tp < b.tp; });
}

JobCoefficients told_for_degree(JobCoefficients job, int tp) {
  if (tp < 1 || job.degree_factors.empty()) return job;
  const double factor = degree_factor(job, tp);
  for (GpuCoefficients& gpu : job.gpu) gpu.comp *= factor;
  job.fixed_samples /= factor;
  for (DegreeFactor& one : job.degree_factors) one.factor /= factor;
  return job;
}

int told_degree(const JobCoefficients& job) {
  for (const DegreeFactor& one : job.degree_factors)
    if (one.factor == 1) return one.tp;
  return 0;
}

void add_known_degrees(JobCoefficients known, JobCoefficients& fresh) {
  const int told = told_degree(fresh);
  if (told == 0 || known.degree_factors.empty()) return;
  known = told_for_degree(std::move(known), told);
  double ratio = 1;  // of the times, on a type that both have measured
  for (std::size_t type = 0; type < std::min(known.gpu.size(), fresh.gpu.size()); ++type)
    if (!known.gpu[type].assumed_comp && !fresh.gpu[type].assumed_comp) {
      ratio = known.gpu[type].comp / fresh.gpu[type].comp;
      break;
    }
  const std::vector<DegreeFactor> own = fresh.degree_factors;
  for (const DegreeFactor& one : known.degree_factors)
    if (std::none_of(own.begin(), own.end(), [&](const DegreeFactor& mine) { return mine.tp == one.tp; }))
      fresh.degree_factors.push_back({one.tp, std::clamp(one.factor * ratio, 1 / kMostFactor, kMostFactor)});
  std::sort(fresh.degree_factors.begin(), fresh.degree_factors.end(),
            [](const DegreeFactor& a, const DegreeFactor& b) { return a.tp < b.tp; });
}

}  // namespace espalier
