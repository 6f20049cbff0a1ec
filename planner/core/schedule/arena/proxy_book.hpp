// What Arena knows of a job on each type and number of GPUs without running it there (§3.2-3.4): the proxy plans of
// its grids, valued by the performance model with the coefficients that it is given. In the paper
// each proxy plan is profiled.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/grid/gpu_pools.hpp"
#include "planner/core/grid/grid.hpp"

namespace espalier {

class ProxyBook {
 public:
  // `bounds`: those of them that bind a plan to nodes or to a number of GPUs are left out. `forms`: Problem::forms.
  ProxyBook(std::shared_ptr<const Site> site, const JobCoefficients& coefficients, PlanBounds bounds,
            std::span<const PipelineForm> forms = {});
  ProxyBook(const ProxyBook&) = delete;
  bool is_for(const JobCoefficients& coefficients, const PlanBounds& bounds, std::span<const PipelineForm> forms) const;

  // The proxy plans on so many GPUs of the pool in a compact place. `gpus`: a power of two. Empty: nothing fits.
  const std::vector<Proxy>& proxies(const GpuPool& pool, const ClusterView& cluster, int gpus);
  // Samples per second of the fastest of them by the exact recurrence; 0: nothing fits. Kept, as the above.
  double throughput(const GpuPool& pool, const ClusterView& cluster, int gpus);

  Evaluator& evaluator() { return *evaluator_; }

 private:
  struct Entry {
    std::vector<Proxy> proxies;
    double throughput = 0;
  };
  const Entry& entry(const GpuPool& pool, const ClusterView& cluster, int gpus);

  const std::shared_ptr<const Site> site_;
  const JobCoefficients coefficients_;
  const PlanBounds bounds_;
  const std::span<const PipelineForm> forms_;
  std::unique_ptr<Evaluator> evaluator_;
  std::map<std::pair<int, int>, Entry> known_;  // by GPU type and GPUs
};

// Of the proxies, the one that is the fastest on these pieces of one type, with its plan there. The pieces are taken in
// their order. `evaluator` may have bounds that the proxies' has not. nullopt: none fits.
std::optional<Proxy> fastest_on(Evaluator& evaluator, const std::vector<Proxy>& proxies, std::span<const Piece> pieces);

}  // namespace espalier
