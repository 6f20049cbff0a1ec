#include "planner/core/schedule/plan_residuals.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

// Standard deviations of the prior: the model may be wrong by a factor that all plans share, a doubling of the TP
// degree changes a step by some 20%, one of stages or of the samples in a micro-batch by some 10%.
constexpr std::array<double, 4> kPrior = {0.5, 0.2, 0.1, 0.1};
constexpr double kNoise = 0.03;  // of a measured step time, and of what no feature explains

// Solves a x = b, of a positive definite matrix, by Cholesky's decomposition.
template <std::size_t n>
std::array<double, n> solve(std::array<std::array<double, n>, n> a, std::array<double, n> b) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

template <std::size_t n>
double product(const std::array<double, n>& a, const std::array<double, n>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

PlanResiduals::PlanResiduals() {
  for (std::size_t i = 0; i < kSize; ++i) precision_[i][i] = 1 / (kPrior[i] * kPrior[i]);
}

// Of an uneven plan: the largest TP degree and the most replicas, which is what a plan is called by.
PlanResiduals::Vector PlanResiduals::features(const Plan& plan) {
  int tp = 1;
  std::size_t replicas = 1;
  for (const Stage& stage : plan.stages) {
    tp = std::max(tp, stage.tp);
    replicas = std::max(replicas, stage.replicas.size());
  }
  const double length = static_cast<double>(plan.global_batch) / (plan.micro_batches * static_cast<double>(replicas));
  return {1, std::log2(tp), std::log2(static_cast<double>(plan.stages.size())), std::log2(length)};
}

void PlanResiduals::add(const Plan& plan, double predicted, double measured) {
  ESPALIER_INVARIANT(predicted > 0 && measured > 0);
  const Vector x = features(plan);
  const double residual = std::log(measured / predicted);
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < kSize; ++j) precision_[i][j] += x[i] * x[j] / (kNoise * kNoise);
    moment_[i] += x[i] * residual / (kNoise * kNoise);
  }
}

double PlanResiduals::Estimate::hopeful() const { return seconds * std::exp(-spread); }

PlanResiduals::Estimate PlanResiduals::of(const Plan& plan, double predicted) const {
  const Vector x = features(plan);
  const double variance = product(x, solve(precision_, x));
  return {predicted * std::exp(product(x, solve(precision_, moment_))), std::sqrt(variance)};
}

}  // namespace espalier
