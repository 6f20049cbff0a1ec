#include "launcher/slurm/asking_order.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {

std::vector<JobId> AskingOrder::next(const std::vector<JobId>& jobs) {
  std::vector<std::pair<std::uint64_t, JobId>> order;
  std::map<JobId, std::uint64_t> asked;
  for (const JobId id : jobs) {
    const auto at = asked_.find(id);
    order.emplace_back(asked[id] = at == asked_.end() ? 0 : at->second, id);
  }
  std::sort(order.begin(), order.end());
  if (order.size() > most_) order.resize(most_);
  ++turn_;
  std::vector<JobId> chosen;
  for (const auto& [turn, id] : order) {
    asked[id] = turn_;
    chosen.push_back(id);
  }
  asked_ = std::move(asked);
  return chosen;
}

}  // namespace espalier::launcher
