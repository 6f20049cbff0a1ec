#include "planner/core/solver/rest_bound.hpp"

#include <algorithm>

namespace espalier {
namespace {

constexpr double kStepsPerStage = 30;  // of work: rates of a stage take this many times as long as one of its layers

// Most layers that a stage can hold in any position.
int best_cap(const Problem& problem, const StageShape& shape, const Shares& shares, int micro_batches) {
  int cap = 0;
  for (const StagePosition& at :
       {StagePosition{0, 1, micro_batches}, StagePosition{1, 2, micro_batches}, StagePosition{1, 3, micro_batches},
        StagePosition{1, micro_batches + 1, micro_batches}})
    cap = std::max(cap, layer_cap(problem.hardware, problem.job, shape, shares, at));
  return cap;
}

}  // namespace

RestBound::RestBound(const Evaluator& evaluator, const GpuStates& states, int choice, int dp, double most_work)
    : states_(states), choice_(choice), layers_(evaluator.problem().job.layers) {
  const JobCoefficients& job = evaluator.problem().job;
  micro_batch_ = job.global_batch / evaluator.micro_batch_counts()[static_cast<std::size_t>(choice)];
  recompute_ = job.recompute;
  for (const GpuClass& one : states.classes()) gpu_.push_back(job.gpu[static_cast<std::size_t>(one.type)]);
  const double rates = kStepsPerStage * static_cast<double>(states.pools() * states.tp_degrees().size());
  if (rates > most_work) return;
  fill_costs(evaluator, dp);
  work_ = rates;
  const double merges = 0.5 * static_cast<double>(states.pools() * demands_.size()) * layers_;
  if (work_ + merges > most_work) return;
  fill_slowest();
  work_ += merges;
}

// No TP communication, and no replica waits for another one.
RestNeed RestBound::ideal(std::span<const std::int16_t> gpus) const {
  double both = 0, forward = 0, backward = 0;
  for (std::size_t c = 0; c < gpus.size(); ++c) {
    if (gpus[c] == 0) continue;
    const double factor = gpu_[c].backward + (recompute_ ? 1 : 0);
    both += gpus[c] / (gpu_[c].comp * (1 + factor));
    forward += gpus[c] / gpu_[c].comp;
    backward += gpus[c] / (gpu_[c].comp * factor);
  }
  return {micro_batch_ / both, micro_batch_ / forward, micro_batch_ / backward, micro_batch_ / both, nullptr};
}

void RestBound::fill_costs(const Evaluator& evaluator, int dp) {
  const Problem& problem = evaluator.problem();
  const int micro_batches = evaluator.micro_batch_counts()[static_cast<std::size_t>(choice_)];
  const std::size_t classes = states_.classes().size();
  std::vector<std::int16_t> gpus(classes);
  needs_.resize(states_.pools());
  least_extra_ = kInfeasible;
  for (std::size_t pool = 1; pool < needs_.size(); ++pool) {
    RestNeed& need = needs_[pool];
    for (std::size_t c = 0; c < classes; ++c) gpus[c] = static_cast<std::int16_t>(grains(pool, c) * states_.grain());
    need.share = ideal(gpus).share;
    const std::size_t first = demands_.size();
    for (const int tp : states_.tp_degrees()) {
      StageShape shape;
      shape.tp = tp;
      bool fits = true;
      for (std::size_t c = 0; c < classes; ++c) {
        if (gpus[c] == 0) continue;
        fits = fits && gpus[c] % tp == 0 && shape.class_count < StageShape::kMaxClasses;
        if (!fits) break;
        const GpuClass& one = states_.classes()[c];
        shape.classes[static_cast<std::size_t>(shape.class_count++)] = {one.type, one.kind, gpus[c] / tp};
        shape.replicas += gpus[c] / tp;
      }
      if (!fits || (dp > 0 && shape.replicas != dp)) continue;
      const Shares shares =
          balance_shares(problem.hardware, problem.job, shape, micro_batch_, problem.bounds.equal_shares);
      if (!shares.feasible) continue;
      const int cap = best_cap(problem, shape, shares, micro_batches);
      if (cap < 1) continue;
      shape.least_members = shape.replicas;
      const StageRates inside = stage_rates(problem.hardware, problem.job, shape, shares);
      shape.level = 1;
      const StageRates across = stage_rates(problem.hardware, problem.job, shape, shares);
      // More computation in the edge hides more of the synchronization.
      const double extra = problem.job.first.compute_layers > 0 ? inside.optim : std::min(inside.extra, across.extra);
      least_extra_ = std::min(least_extra_, extra);
      const double cost = inside.fwd + inside.bwd;
      need.cost = std::min(need.cost, cost);
      need.forward = std::min(need.forward, inside.fwd);
      need.backward = std::min(need.backward, inside.bwd);
      const auto no_worse = [&](const Demand& other) { return other.cost <= cost && other.cap >= cap; };
      if (std::none_of(demands_.begin() + static_cast<std::ptrdiff_t>(first), demands_.end(), no_worse))
        demands_.push_back({pool, cost, cap});
    }
    for (std::size_t c = 0; c < classes; ++c) {
      if (gpus[c] == 0) continue;
      const RestNeed& less = needs_[pool - states_.strides()[c]];
      need.cost = std::min(need.cost, less.cost);
      need.forward = std::min(need.forward, less.forward);
      need.backward = std::min(need.backward, less.backward);
    }
  }
}

bool RestBound::contains(std::size_t pool, std::size_t part) const {
  if (states_.classes().size() == 1) return part <= pool;
  for (std::size_t c = 0; c < states_.classes().size(); ++c)
    if (grains(part, c) > grains(pool, c)) return false;
  return true;
}

// The least maximum over ways to cut a pool into stages: of a stage with the pool's rest behind it, the layers go one
// by one to where they cost less.
void RestBound::fill_slowest() {
  const auto row_size = static_cast<std::size_t>(layers_) + 1;
  slowest_.assign(needs_.size() * row_size, kInfeasible);
  for (std::size_t pool = 0; pool < needs_.size(); ++pool) {
    double* row = slowest_.data() + pool * row_size;
    row[0] = 0;
    needs_[pool].table = row;
    for (std::size_t c = 0; c < states_.classes().size(); ++c) {
      if (grains(pool, c) == 0) continue;
      const double* less = row - states_.strides()[c] * row_size;
      for (std::size_t l = 1; l < row_size; ++l) row[l] = std::min(row[l], less[l]);
    }
    for (const Demand& demand : demands_) {
      if (demand.pool > pool) break;
      if (!contains(pool, demand.pool)) continue;
      const double* rest = row - demand.pool * row_size;
      int own = 0, other = 0;
      for (std::size_t l = 1; l < row_size; ++l) {
        const double next = own < demand.cap ? (own + 1) * demand.cost : kInfeasible;
        const bool to_own = next <= rest[other + 1];
        const double value = to_own ? next : rest[other + 1];
        if (value == kInfeasible) break;
        ++(to_own ? own : other);
        row[l] = std::min(row[l], value);
      }
    }
  }
}

}  // namespace espalier
