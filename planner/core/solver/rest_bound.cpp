#include "planner/core/solver/rest_bound.hpp"

#include <algorithm>

#include "planner/core/model/degree_factor.hpp"

namespace espalier {
namespace {

constexpr double kLabelsPerDemand = 1.5, kLabelsPerStep = 1.0 / 150;

// The most layers that a stage can hold in any position.
int best_cap(const Problem& problem, const StageShape& shape, const Shares& shares, int micro_batches) {
  int cap = 0;
  for (const StagePosition& at :
       {StagePosition{0, 1, micro_batches}, StagePosition{1, 2, micro_batches}, StagePosition{1, 3, micro_batches},
        StagePosition{1, micro_batches + 1, micro_batches}})
    cap = std::max(cap, layer_cap(problem.hardware, problem.job, shape, shares, at));
  return cap;
}

}  // namespace

RestBound::RestBound(const Evaluator& evaluator, const GpuStates& states, int choice, int dp)
    : problem_(evaluator.problem()),
      states_(states),
      dp_(dp),
      layers_(problem_.job.layers),
      micro_batches_(evaluator.micro_batch_counts()[static_cast<std::size_t>(choice)]),
      micro_batch_(problem_.job.global_batch / micro_batches_) {
  for (const GpuClass& one : states.classes()) {
    gpu_.push_back(problem_.job.gpu[static_cast<std::size_t>(one.type)]);
    gpu_.back().comp *= least_degree_factor(problem_.job);
  }
}

// Assumes no TP communication, and no replica that waits for another one.
RestNeed RestBound::ideal(std::span<const std::int16_t> gpus) const {
  double both = 0, forward = 0, backward = 0;
  for (std::size_t c = 0; c < gpus.size(); ++c) {
    if (gpus[c] == 0) continue;
    const double factor = gpu_[c].backward + (problem_.job.recompute ? 1 : 0);
    both += gpus[c] / (gpu_[c].comp * (1 + factor));
    forward += gpus[c] / gpu_[c].comp;
    backward += gpus[c] / (gpu_[c].comp * factor);
  }
  return {micro_batch_ / both, micro_batch_ / forward, micro_batch_ / backward, micro_batch_ / both, nullptr};
}

long RestBound::count_pools(long most) {
  const double per_pool = kLabelsPerDemand * static_cast<double>(states_.tp_degrees().size());
  if (static_cast<double>(states_.pools()) * per_pool > static_cast<double>(most)) return 0;
  const std::size_t classes = states_.classes().size();
  std::vector<std::int16_t> gpus(classes);
  needs_.resize(states_.pools());
  least_extra_ = kInfeasible;
  for (std::size_t pool = 1; pool < needs_.size(); ++pool) {
    for (std::size_t c = 0; c < classes; ++c) gpus[c] = static_cast<std::int16_t>(grains(pool, c) * states_.grain());
    RestNeed& need = needs_[pool];
    need.share = ideal(gpus).share;
    for (const int tp : states_.tp_degrees()) add_demand(pool, gpus, tp);
    for (std::size_t c = 0; c < classes; ++c) {
      if (gpus[c] == 0) continue;
      const RestNeed& less = needs_[pool - states_.strides()[c]];
      need.cost = std::min(need.cost, less.cost);
      need.forward = std::min(need.forward, less.forward);
      need.backward = std::min(need.backward, less.backward);
    }
  }
  return static_cast<long>(kLabelsPerDemand * static_cast<double>(demands_.size()));
}

void RestBound::add_demand(std::size_t pool, std::span<const std::int16_t> gpus, int tp) {
  StageShape shape;
  shape.tp = tp;
  for (std::size_t c = 0; c < gpus.size(); ++c) {
    if (gpus[c] == 0) continue;
    if (gpus[c] % tp != 0 || shape.class_count == StageShape::kMaxClasses) return;
    const GpuClass& one = states_.classes()[c];
    shape.classes[static_cast<std::size_t>(shape.class_count++)] = {one.type, one.kind, gpus[c] / tp};
    shape.replicas += gpus[c] / tp;
  }
  if (dp_ > 0 && shape.replicas != dp_) return;
  const Shares shares =
      balance_shares(problem_.hardware, problem_.job, shape, micro_batch_, problem_.bounds.equal_shares);
  if (!shares.feasible) return;
  const int cap = best_cap(problem_, shape, shares, micro_batches_);
  if (cap < 1) return;
  shape.least_members = shape.replicas;
  const StageRates inside = stage_rates(problem_.hardware, problem_.job, shape, shares);
  shape.level = 1;
  const StageRates across = stage_rates(problem_.hardware, problem_.job, shape, shares);
  // More computation in the edge hides more of the synchronization. Then only the optimizer gives a
  // bound.
  least_extra_ = std::min(least_extra_,
                          problem_.job.first.compute_layers > 0 ? inside.optim : std::min(inside.extra, across.extra));
  const double cost = inside.fwd + inside.bwd;
  RestNeed& need = needs_[pool];
  need.cost = std::min(need.cost, cost);
  need.forward = std::min(need.forward, inside.fwd);
  need.backward = std::min(need.backward, inside.bwd);
  for (std::size_t d = demands_.size(); d > 0 && demands_[d - 1].pool == pool; --d)
    if (demands_[d - 1].cost <= cost && demands_[d - 1].cap >= cap) return;
  demands_.push_back({pool, cost, cap});
}

bool RestBound::contains(std::size_t pool, std::size_t part) const {
  if (states_.classes().size() == 1) return part <= pool;
  for (std::size_t c = 0; c < states_.classes().size(); ++c)
    if (grains(part, c) > grains(pool, c)) return false;
  return true;
}

// Computes the least maximum of the stages' t over all ways to cut a pool into stages. For a stage
// and the rest of the pool, the layers go one by one to the side where they cost less.
long RestBound::fill_tables(long most) {
  double pairs = 1;  // pairs of a pool and a part of it
  for (const GpuClass& one : states_.classes()) {
    const double grains = one.gpus / states_.grain();
    pairs *= (grains + 1) * (grains + 2) / 2;
  }
  const double per_pool = static_cast<double>(demands_.size()) / static_cast<double>(states_.pools());
  const double labels = pairs * per_pool * layers_ * kLabelsPerStep;
  if (needs_.empty() || labels > static_cast<double>(most)) return 0;
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
  return static_cast<long>(labels);
}

}  // namespace espalier
