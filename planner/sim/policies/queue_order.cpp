#include "planner/sim/policies/queue_order.hpp"

#include <algorithm>
#include <numeric>

namespace espalier::sim {

std::vector<std::size_t> queue_order(const SimulatedView& view) {
  std::vector<std::size_t> order(view.jobs.size()), places, jobs;
  std::iota(order.begin(), order.end(), 0);
  for (const SimulatedJobState* job : view.waiting) {
    const auto at = std::lower_bound(view.jobs.begin(), view.jobs.end(), job->id,
                                     [](const SimulatedJobState* one, JobId id) { return one->id < id; });
    jobs.push_back(static_cast<std::size_t>(at - view.jobs.begin()));
  }
  places = jobs;
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < places.size(); ++i) order[places[i]] = jobs[i];
  return order;
}

}  // namespace espalier::sim
