// Measures how near Arena's proxy plans and the planner's own plans are to the performance model's
// optimum, on GPUs of one type.
#pragma once

#include <optional>
#include <vector>

#include "tests/bench/planner/instances.hpp"

namespace espalier::bench {

struct ProxyQuality {
  // Throughput relative to the best plan on the GPUs: of the best proxy plan, of the planner's own
  // search, of the search around the proxy plan.
  double proxy = 0, own = 0, pruned = 0;
  // The same of every grid's proxy plan, relative to the best plan with its number of stages.
  std::vector<double> by_grid;
  double full_plans = 0, pruned_plans = 0;  // that the searches look at
};

// nullopt: no proxy plan fits. Throws Error when the exact search gives up.
std::optional<ProxyQuality> measure_proxy(const Instance& instance);

}  // namespace espalier::bench
