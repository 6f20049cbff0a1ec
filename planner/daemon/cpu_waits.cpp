#include "planner/daemon/cpu_waits.hpp"

#include <utility>

namespace espalier {
namespace {

// Of users' own lists of nodes there may be as many as jobs, and a decision looks at all nodes for each.
constexpr std::size_t kMost = 256;

}  // namespace

void CpuWaits::add(WaitingJob job) {
  const auto key = std::tuple(job.only_nodes.identity(), job.nodes, job.cpus, job.memory_mb, job.whole_nodes);
  if (first_.size() >= kMost && !first_.contains(key)) return;
  const auto [at, fresh] = first_.try_emplace(key, job);
  WaitingJob& first = at->second;
  // nullopt, no expected start, is less than any.
  if (!fresh && job.expected_start < first.expected_start) first = std::move(job);
}

std::vector<WaitingJob> CpuWaits::first_of_each() const {
  std::vector<WaitingJob> result;
  for (const auto& [key, job] : first_) result.push_back(job);
  return result;
}

}  // namespace espalier
