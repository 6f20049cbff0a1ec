#include "planner/core/schedule/arena/proxy_book.hpp"

#include <algorithm>

namespace espalier {
namespace {

PlanBounds anywhere(PlanBounds bounds) {
  const PlanBounds free;
  bounds.min_gpus = free.min_gpus;
  bounds.max_gpus = free.max_gpus;
  bounds.types = free.types;
  bounds.lead_node = free.lead_node;
  return bounds;
}

}  // namespace

ProxyBook::ProxyBook(std::shared_ptr<const Site> site, const JobCoefficients& coefficients, PlanBounds bounds,
                     std::span<const PipelineForm> forms)
    : site_(std::move(site)), coefficients_(coefficients), bounds_(anywhere(std::move(bounds))), forms_(forms) {
  evaluator_ = std::make_unique<Evaluator>(Problem{site_->hardware, site_->topology, coefficients_, bounds_, forms_});
}

bool ProxyBook::is_for(const JobCoefficients& coefficients, const PlanBounds& bounds,
                       std::span<const PipelineForm> forms) const {
  return coefficients == coefficients_ && anywhere(bounds) == bounds_ && std::ranges::equal(forms, forms_);
}

const ProxyBook::Entry& ProxyBook::entry(const GpuPool& pool, const ClusterView& cluster, int gpus) {
  const auto [at, fresh] = known_.try_emplace({pool.type, gpus});
  Entry& entry = at->second;
  if (!fresh) return entry;
  const auto pieces = compact_pieces(pool, cluster, *site_, gpus);
  if (pieces.empty()) return entry;
  entry.proxies = grid_proxies(*evaluator_, pieces);
  for (const Proxy& proxy : entry.proxies)
    entry.throughput =
        std::max(entry.throughput, 1000 * coefficients_.global_batch / evaluator_->exact_sketch(proxy.solution.sketch));
  return entry;
}

const std::vector<Proxy>& ProxyBook::proxies(const GpuPool& pool, const ClusterView& cluster, int gpus) {
  return entry(pool, cluster, gpus).proxies;
}

double ProxyBook::throughput(const GpuPool& pool, const ClusterView& cluster, int gpus) {
  return entry(pool, cluster, gpus).throughput;
}

std::optional<Proxy> fastest_on(Evaluator& evaluator, const std::vector<Proxy>& proxies,
                                std::span<const Piece> pieces) {
  std::optional<Proxy> best;
  double least = kInfeasible;
  for (const Proxy& proxy : proxies) {
    auto solution = grid_solution(evaluator, proxy.frontier.front(), pieces);
    if (!solution) continue;
    const double ms = evaluator.exact_sketch(solution->sketch);
    if (ms >= least) continue;
    least = ms;
    best = {proxy.stages, std::move(*solution), proxy.frontier};
  }
  return best;
}

}  // namespace espalier
