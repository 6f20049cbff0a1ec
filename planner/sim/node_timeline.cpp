#include "planner/sim/node_timeline.hpp"

#include <algorithm>
#include <tuple>

namespace espalier::sim {

namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();

// The times at which a job of `seconds` may start on a node that is free from `from` on: closed intervals, ascending.
// `use(first, last)` returns false to end.
template <class Use>
void each_start(double from, const std::vector<std::pair<double, double>>& reservations, double seconds,
                const Use& use) {
  double first = from;
  for (const auto& [begin, end] : reservations) {
    if (first <= begin - seconds && !use(first, begin - seconds)) return;
    first = std::max(first, end);
  }
  use(first, kNever);
}

}  // namespace

NodeTimeline::NodeTimeline(const ClusterView& cluster, double now, const std::function<double(JobId)>& end_of)
    : cluster_(cluster), now_(now), nodes_(cluster.nodes.size()) {
  JobId known = 0;  // owner of the previous GPU; neighbours mostly have one owner
  double end = now;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (const JobId owner : cluster.nodes[n].gpu_owner) {
      if (owner != known) {
        known = owner;
        end = owner == 0 ? now : std::max(now, end_of(owner));
      }
      nodes_[n].free_at.push_back(end);
    }
    std::sort(nodes_[n].free_at.begin(), nodes_[n].free_at.end());
  }
}

int NodeTimeline::node_gpus(const std::string& gpu_type) const {
  std::size_t most = 1;
  for (const NodeView& node : cluster_.nodes)
    if (node.gpu_type == gpu_type) most = std::max(most, node.gpu_owner.size());
  return static_cast<int>(most);
}

bool NodeTimeline::serves(std::size_t node, std::size_t per_node, const std::string& gpu_type) const {
  const NodeView& view = cluster_.nodes[node];
  return view.usable && view.gpu_owner.size() >= per_node && view.gpu_type == gpu_type;
}

NodeTimeline::Slot NodeTimeline::earliest(int gpus, const std::string& gpu_type, double seconds) const {
  const int largest = node_gpus(gpu_type);
  const auto per_node = static_cast<std::size_t>(std::min(gpus, largest));
  const auto wanted = static_cast<std::size_t>((gpus + largest - 1) / largest);
  Slot slot;
  if (wanted == 1) {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (!serves(n, per_node, gpu_type) || nodes_[n].free_at[per_node - 1] >= slot.start) continue;
      each_start(nodes_[n].free_at[per_node - 1], nodes_[n].reservations, seconds, [&](double first, double) {
        if (first < slot.start) slot = {first, {n}};
        return false;
      });
    }
    return slot;
  }
  // At one time nodes join before others leave: the intervals are closed.
  std::vector<std::tuple<double, bool, std::size_t>> changes;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (!serves(n, per_node, gpu_type) || nodes_[n].free_at[per_node - 1] == kNever) continue;
    each_start(nodes_[n].free_at[per_node - 1], nodes_[n].reservations, seconds, [&](double first, double last) {
      changes.emplace_back(first, false, n);
      if (last < kNever) changes.emplace_back(last, true, n);
      return true;
    });
  }
  std::sort(changes.begin(), changes.end());
  std::vector<bool> free(nodes_.size(), false);
  std::size_t count = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto& [time, leaves, node] = changes[i];
    free[node] = !leaves;
    leaves ? --count : ++count;
    if (count < wanted || leaves) continue;
    slot.start = time;
    for (std::size_t n = 0; n < free.size() && slot.nodes.size() < wanted; ++n)
      if (free[n]) slot.nodes.push_back(n);
    break;
  }
  return slot;
}

void NodeTimeline::reserve(const Slot& slot, double seconds) {
  const std::pair reserved(slot.start, slot.start + seconds);
  for (const std::size_t n : slot.nodes) {
    auto& list = nodes_[n].reservations;
    list.insert(std::upper_bound(list.begin(), list.end(), reserved), reserved);
  }
}

bool NodeTimeline::is_reserved(std::size_t node, double until) const {
  const auto& list = nodes_[node].reservations;
  return !list.empty() && list.front().first < until;
}

void NodeTimeline::occupy(std::size_t node, int gpus, double until) {
  auto& free_at = nodes_[node].free_at;
  for (int i = 0; i < gpus; ++i) free_at[static_cast<std::size_t>(i)] = until;
  std::sort(free_at.begin(), free_at.end());
}

}  // namespace espalier::sim
