#include "planner/daemon/unfit_nodes.hpp"

namespace espalier {
namespace {

constexpr double kKept = 3600;  // seconds
constexpr int kFinders = 2;     // jobs

}  // namespace

std::vector<std::string> UnfitNodes::note(uid_t user, JobId job, const std::vector<GpuId>& unfit, double now) {
  std::vector<std::string> fresh;
  if (unfit.empty()) return fresh;
  for (auto& [uid, jobs] : until_) {
    for (auto& [id, nodes] : jobs) std::erase_if(nodes, [&](const auto& one) { return one.second <= now; });
    std::erase_if(jobs, [](const auto& one) { return one.second.empty(); });
  }
  std::erase_if(until_, [](const auto& one) { return one.second.empty(); });
  auto& nodes = until_[user][job];
  for (const GpuId& gpu : unfit) {
    const auto at = nodes.find(gpu.node);
    if (at != nodes.end()) {
      at->second = now + kKept;
    } else if (nodes.size() < kMostNodes) {
      nodes[gpu.node] = now + kKept;
      fresh.push_back(gpu.node);
    }
  }
  return fresh;
}

std::set<std::string> UnfitNodes::of(uid_t user, JobId job, double now) const {
  std::set<std::string> found;
  const auto jobs = until_.find(user);
  if (jobs == until_.end()) return found;
  std::map<std::string, int> finders;
  for (const auto& [id, nodes] : jobs->second)
    for (const auto& [node, until] : nodes)
      if (id != job && until > now && ++finders[node] >= kFinders) found.insert(node);
  return found;
}

std::map<std::string, int> UnfitNodes::all(double now) const {
  std::map<std::string, int> all;
  for (const auto& [user, jobs] : until_)
    for (const auto& [id, nodes] : jobs)
      for (const auto& [node, until] : nodes)
        if (until > now) ++all[node];
  return all;
}

}  // namespace espalier
