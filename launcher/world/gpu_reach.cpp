#include "launcher/world/gpu_reach.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace espalier::launcher {

void GpuReach::heard(const ServerId& server, const wire::Ready& ready) {
  jobs_reach_ = ready.jobs_reach;
  // Where none are named all reach each other, whatever was said before.
  if (ready.gpu_islands.empty()) islands_.erase(islands_key(server));
  else islands_[islands_key(server)] = ready.gpu_islands;
}

const wire::GpuIslands& GpuReach::of(const std::vector<Holding>& holdings) {
  if (islands_.empty()) return islands_;
  std::set<std::string> held;
  for (const Holding& holding : holdings) held.insert(islands_key({holding.node, holding.job}));
  std::erase_if(islands_, [&](const auto& known) { return !held.contains(known.first); });
  return islands_;
}

// A job may hold parts of thousands of nodes, and each status tells of them.
wire::GpuIslands GpuReach::of_part(const std::vector<Holding>& holdings, const std::vector<Holding>& part) const {
  wire::GpuIslands result;
  if (islands_.empty()) return result;
  std::map<std::string, std::vector<const Holding*>> left_of;  // by islands_key()
  for (const Holding& left : part) left_of[islands_key({left.node, left.job})].push_back(&left);
  for (const Holding& holding : holdings) {
    const std::string key = islands_key({holding.node, holding.job});
    const auto known = islands_.find(key);
    const auto some_left = left_of.find(key);
    if (known == islands_.end() || known->second.size() != holding.gpus.size() || some_left == left_of.end()) continue;
    std::vector<int> gpus = holding.gpus;
    std::sort(gpus.begin(), gpus.end());
    for (const Holding* const left : some_left->second)
      for (std::size_t place = 0; place < gpus.size(); ++place)
        if (std::find(left->gpus.begin(), left->gpus.end(), gpus[place]) != left->gpus.end())
          result[key].push_back(known->second[place]);
  }
  return result;
}

}  // namespace espalier::launcher
