#include "launcher/slurm/asking_order.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {

std::vector<JobId> AskingOrder::next(const std::set<JobId>& jobs, const std::set<JobId>& under_way) {
  std::erase_if(asked_, [&](const auto& entry) { return jobs.count(entry.first) == 0; });
  std::vector<std::pair<std::uint64_t, JobId>> order;
  for (const JobId id : jobs) {
    const std::uint64_t asked = asked_[id];  // 0: never
    if (under_way.count(id) == 0) order.emplace_back(asked, id);
  }
  std::sort(order.begin(), order.end());
  const std::size_t at_once = std::max(most_, (jobs.size() + turns_ - 1) / turns_);
  if (order.size() > at_once) order.resize(at_once);
  ++turn_;
  std::vector<JobId> chosen;
  for (const auto& [asked, id] : order) {
    asked_[id] = turn_;
    chosen.push_back(id);
  }
  return chosen;
}

}  // namespace espalier::launcher
