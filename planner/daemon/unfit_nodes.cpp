#include "planner/daemon/unfit_nodes.hpp"

#include <cmath>

namespace espalier {
namespace {

constexpr double kKept = 3600, kBetweenSweeps = 60;  // seconds
constexpr int kFinders = 2;                          // jobs

}  // namespace

// A launcher reports every second, so a sweep at each report would cost in proportion to all findings.
void UnfitNodes::Findings::sweep(double now) {
  if (std::abs(now - swept) < kBetweenSweeps) return;
  swept = now;
  count = 0;
  for (auto& [id, nodes] : until) {
    std::erase_if(nodes, [&](const auto& one) { return one.second <= now; });
    count += nodes.size();
  }
  std::erase_if(until, [](const auto& one) { return one.second.empty(); });
}

std::vector<std::string> UnfitNodes::note(uid_t user, JobId job, const std::vector<GpuId>& unfit, double now) {
  std::vector<std::string> fresh;
  if (unfit.empty()) return fresh;
  // A user whose findings have all run out is forgotten when another user comes.
  if (!users_.contains(user)) {
    for (auto& [uid, findings] : users_) findings.sweep(now);
    std::erase_if(users_, [](const auto& entry) { return entry.second.count == 0; });
  }
  Findings& all = users_[user];
  all.sweep(now);
  auto& nodes = all.until[job];
  for (const GpuId& gpu : unfit) {
    const auto at = nodes.find(gpu.node);
    if (at != nodes.end()) {
      if (at->second <= now) fresh.push_back(gpu.node);
      at->second = now + kKept;
    } else if (nodes.size() < kMostNodes && all.count < kMostOfUser) {
      nodes[gpu.node] = now + kKept;
      ++all.count;
      fresh.push_back(gpu.node);
    }
  }
  return fresh;
}

std::set<std::string> UnfitNodes::of(uid_t user, JobId job, double now) const {
  std::set<std::string> found;
  const auto all = users_.find(user);
  if (all == users_.end()) return found;
  std::map<std::string, int> finders;
  for (const auto& [id, nodes] : all->second.until)
    for (const auto& [node, until] : nodes)
      if (id != job && until > now && ++finders[node] >= kFinders) found.insert(node);
  return found;
}

std::map<std::string, int> UnfitNodes::all(double now) const {
  std::map<std::string, int> all;
  for (const auto& [user, findings] : users_)
    for (const auto& [id, nodes] : findings.until)
      for (const auto& [node, until] : nodes)
        if (until > now) ++all[node];
  return all;
}

}  // namespace espalier
