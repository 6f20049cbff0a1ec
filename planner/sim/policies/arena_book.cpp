#include "planner/sim/policies/arena_book.hpp"

namespace espalier::sim {

ArenaSpeeds::ArenaSpeeds(const SimulatedView& view, const std::vector<GpuPool>& pools,
                         const JobCoefficients& coefficients, const JobKind& kind, int most_gpus)
    : site_(view.input.site), coefficients_(coefficients), kind_(kind) {
  evaluator_ = std::make_unique<Evaluator>(Problem{site_->hardware, site_->topology, coefficients_, bounds_});
  look(view, pools, most_gpus);
}

void ArenaSpeeds::look(const SimulatedView& view, const std::vector<GpuPool>& pools, int most_gpus) {
  for (const GpuPool& pool : pools) {
    auto& speeds = throughput_.emplace_back();
    for (int gpus = 1; gpus <= most_gpus && gpus <= pool.gpus; gpus *= 2) {
      double& speed = speeds.emplace_back(0.0);
      if (kind_.measured) {
        const double seconds = kind_.measured->seconds(pool.type, gpus, std::min(gpus, pool.node_gpus));
        if (seconds > 0) speed = coefficients_.global_batch / seconds;
        continue;
      }
      const auto pieces = compact_pieces(pool, view.input.cluster, *site_, gpus);
      auto proxies = grid_proxies(*evaluator_, pieces);
      for (const Proxy& proxy : proxies) {
        const double ms = evaluator_->exact_sketch(proxy.solution.sketch);
        speed = std::max(speed, 1000 * coefficients_.global_batch / ms);
      }
      if (!proxies.empty()) proxies_[{pool.type, gpus}] = std::move(proxies);
    }
  }
}

std::optional<PlanSketch> ArenaSpeeds::sketch(const std::vector<Piece>& pieces) {
  if (kind_.measured) return PlanSketch{1, {StageSketch{1, coefficients_.layers, pieces}}};
  std::optional<PlanSketch> best;
  double least = kInfeasible;
  const auto known = proxies_.find({pieces.front().type, count_gpus(pieces)});
  if (known == proxies_.end()) return best;
  for (const Proxy& proxy : known->second) {
    const auto solution = grid_solution(*evaluator_, proxy.frontier.front(), pieces);
    if (!solution) continue;
    const double ms = evaluator_->exact_sketch(solution->sketch);
    if (ms >= least) continue;
    least = ms;
    best = solution->sketch;
  }
  return best;
}

}  // namespace espalier::sim
