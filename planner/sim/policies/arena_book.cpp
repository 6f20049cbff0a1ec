#include "planner/sim/policies/arena_book.hpp"

#include <algorithm>

#include "planner/core/solver/best_plan.hpp"

namespace espalier::sim {

ArenaSpeeds::ArenaSpeeds(const SimulatedView& view, const std::vector<GpuPool>& pools,
                         const JobCoefficients& coefficients, const JobKind& kind, int most_gpus)
    : coefficients_(coefficients), kind_(kind), book_(view.input.site, coefficients, {}), pools_(pools) {
  for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
    throughput_.emplace_back();
    while (next(pool) <= most_gpus && add_next(view, pool)) {
    }
  }
}

bool ArenaSpeeds::add_next(const SimulatedView& view, std::size_t pool) {
  const GpuPool& on = pools_[pool];
  const int gpus = next(pool);
  if (gpus > on.gpus) return false;
  double& speed = throughput_[pool].emplace_back(0.0);
  if (kind_.measured) {
    const double seconds = kind_.measured->seconds(on.type, gpus, std::min(gpus, on.node_gpus));
    if (seconds > 0) speed = coefficients_.global_batch / seconds;
  } else {
    speed = book_.throughput(on, view.input.cluster, gpus);
  }
  return true;
}

void ArenaSpeeds::look_further(const SimulatedView& view, std::size_t pool) {
  while (add_next(view, pool) && throughput_[pool].back() <= 0) {
  }
}

// On all of these GPUs.
std::optional<PlanSketch> ArenaSpeeds::found_on(const std::vector<Piece>& pieces) {
  constexpr SearchEffort kEffort{1, 6, 1000, 2'000};  // arena_growth.cpp's
  auto found = best_plan(book_.evaluator(), pieces, {}, kEffort);
  if (!found || found->sketch.gpus() != count_gpus(pieces)) return std::nullopt;
  return std::move(found->sketch);
}

void ArenaSpeeds::search(const SimulatedView& view, std::size_t pool) {
  if (kind_.measured) return;
  searches_ = true;
  for (std::size_t level = 0; level < throughput_[pool].size(); ++level) {
    const auto pieces = compact_pieces(pools_[pool], view.input.cluster, *view.input.site, 1 << level);
    if (pieces.empty()) continue;
    if (const auto plan = found_on(pieces))
      throughput_[pool][level] = 1000 * coefficients_.global_batch / book_.evaluator().exact_sketch(*plan);
  }
}

std::optional<PlanSketch> ArenaSpeeds::sketch(const SimulatedView& view, const std::vector<Piece>& pieces) {
  if (kind_.measured) return PlanSketch{1, {StageSketch{1, coefficients_.layers, pieces}}};
  const auto pool =
      std::find_if(pools_.begin(), pools_.end(), [&](const GpuPool& one) { return one.type == pieces.front().type; });
  if (pool == pools_.end()) return std::nullopt;
  auto fastest = fastest_on(book_.evaluator(), book_.proxies(*pool, view.input.cluster, count_gpus(pieces)), pieces);
  if (!fastest) return searches_ ? found_on(pieces) : std::nullopt;
  return std::move(fastest->solution.sketch);
}

}  // namespace espalier::sim
