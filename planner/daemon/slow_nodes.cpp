#include "planner/daemon/slow_nodes.hpp"

#include <algorithm>

namespace espalier {
namespace {

constexpr double kKept = 3600;  // seconds

}  // namespace

void SlowNodes::note(uid_t user, JobId job, const std::map<std::string, double>& shares, double now) {
  for (auto& [uid, nodes] : found_) {
    for (auto& [node, findings] : nodes)
      std::erase_if(findings, [&](const auto& one) { return one.second.until <= now; });
    std::erase_if(nodes, [](const auto& one) { return one.second.empty(); });
  }
  auto& nodes = found_[user];
  for (const auto& [node, share] : shares)
    if (share < kSlowNode) nodes[node][job] = {share, now + kKept};
    else if (const auto at = nodes.find(node); at != nodes.end()) at->second.erase(job);
  std::erase_if(nodes, [](const auto& one) { return one.second.empty(); });
  std::erase_if(found_, [](const auto& one) { return one.second.empty(); });
}

std::map<std::string, double> SlowNodes::of(uid_t user, double now) const {
  std::map<std::string, double> slow;
  const auto nodes = found_.find(user);
  if (nodes == found_.end()) return slow;
  for (const auto& [node, findings] : nodes->second)
    for (const auto& [job, finding] : findings) {
      if (finding.until <= now) continue;
      double& least = slow.try_emplace(node, finding.share).first->second;
      least = std::min(least, finding.share);
    }
  return slow;
}

std::map<std::string, SlowNodes::Slow> SlowNodes::all(double now) const {
  std::map<std::string, Slow> all;
  for (const auto& [user, nodes] : found_)
    for (const auto& [node, findings] : nodes)
      for (const auto& [job, finding] : findings) {
        if (finding.until <= now) continue;
        Slow& slow = all[node];
        slow.share = std::min(slow.share, finding.share);
        ++slow.jobs;
      }
  return all;
}

}  // namespace espalier
