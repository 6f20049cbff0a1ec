#include "planner/sim/policies/arena_book.hpp"

#include <algorithm>

namespace espalier::sim {

ArenaSpeeds::ArenaSpeeds(const SimulatedView& view, const std::vector<GpuPool>& pools,
                         const JobCoefficients& coefficients, const JobKind& kind, int most_gpus)
    : coefficients_(coefficients), kind_(kind), book_(view.input.site, coefficients, {}), pools_(pools) {
  for (const GpuPool& pool : pools) {
    auto& speeds = throughput_.emplace_back();
    for (int gpus = 1; gpus <= most_gpus && gpus <= pool.gpus; gpus *= 2) {
      double& speed = speeds.emplace_back(0.0);
      if (kind_.measured) {
        const double seconds = kind_.measured->seconds(pool.type, gpus, std::min(gpus, pool.node_gpus));
        if (seconds > 0) speed = coefficients_.global_batch / seconds;
        continue;
      }
      speed = book_.throughput(pool, view.input.cluster, gpus);
    }
  }
}

std::optional<PlanSketch> ArenaSpeeds::sketch(const SimulatedView& view, const std::vector<Piece>& pieces) {
  if (kind_.measured) return PlanSketch{1, {StageSketch{1, coefficients_.layers, pieces}}};
  const auto pool =
      std::find_if(pools_.begin(), pools_.end(), [&](const GpuPool& one) { return one.type == pieces.front().type; });
  if (pool == pools_.end()) return std::nullopt;
  auto fastest = fastest_on(book_.evaluator(), book_.proxies(*pool, view.input.cluster, count_gpus(pieces)), pieces);
  if (!fastest) return std::nullopt;
  return std::move(fastest->solution.sketch);
}

}  // namespace espalier::sim
