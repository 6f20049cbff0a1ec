#include "planner/sim/policies/packing.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace espalier::sim {

int count_gpus(const Spread& spread) {
  int sum = 0;
  for (const NodeShare& share : spread) sum += share.gpus;
  return sum;
}

namespace {

int held_on(const Spread& spread, int node) {
  for (const NodeShare& share : spread)
    if (share.node == node) return share.gpus;
  return 0;
}

class Packing {
 public:
  Packing(std::span<const PackedNode> nodes, std::span<const PackedJob> jobs)
      : nodes_(nodes), jobs_(jobs), placed_(jobs.size()), on_node_(nodes.size()), hoped_for_(nodes.size()) {
    for (const PackedNode& node : nodes) {
      free_.push_back(node.gpus);
      size_ = std::max(size_, node.gpus);
    }
  }

  std::vector<Spread> run() {
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      if (jobs_[j].gpus <= 0) continue;
      if (jobs_[j].fixed || count_gpus(jobs_[j].held) == jobs_[j].gpus) place(j, jobs_[j].held);
      else queue_.insert({-jobs_[j].gpus, j});
    }
    // A job that changes prefers to stay on its node.
    for (const auto& [size, job] : queue_)
      for (const NodeShare& share : jobs_[job].held) hoped_for_[at(share.node)] += share.gpus;
    while (!queue_.empty()) {
      const std::size_t job = queue_.begin()->second;
      queue_.erase(queue_.begin());
      Spread spread = find(job);
      if (!spread.empty()) place(job, std::move(spread));
    }
    return placed_;
  }

 private:
  void place(std::size_t job, Spread spread) {
    for (const NodeShare& share : spread) {
      free_[at(share.node)] -= share.gpus;
      on_node_[at(share.node)].insert(job);
    }
    placed_[job] = std::move(spread);
  }
  void evict(std::size_t job) {
    for (const NodeShare& share : placed_[job]) {
      free_[at(share.node)] += share.gpus;
      on_node_[at(share.node)].erase(job);
    }
    placed_[job].clear();
    queue_.insert({-jobs_[job].gpus, job});
  }

  Spread find(std::size_t job) {
    const int whole = jobs_[job].gpus / size_, rest = jobs_[job].gpus % size_;
    std::vector<int> chosen;
    while ((chosen = empty_nodes(job, whole)).size() < static_cast<std::size_t>(whole))
      if (!clear_a_node(job)) return {};
    Spread spread;
    for (const int node : chosen) spread.push_back({node, size_});
    if (rest > 0) {
      const int node = node_with(job, rest, chosen);
      if (node < 0) return {};
      spread.push_back({node, rest});
    }
    std::sort(spread.begin(), spread.end(), [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; });
    return spread;
  }

  // Up to `count` entirely free nodes, in this order: nodes that the job holds; nodes of racks
  // where it holds GPUs; nodes of the rack with the fewest free nodes that suffice, else of the
  // racks with most. Nodes that no other job prefers come first.
  std::vector<int> empty_nodes(std::size_t job, int count) const {
    if (count == 0) return {};
    std::vector<int> empty;
    std::map<int, int> in_rack, held_in_rack;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      if (const int held = held_on(jobs_[job].held, n); held > 0) held_in_rack[rack(n)] += held;
      if (free_[at(n)] < size_) continue;
      empty.push_back(n);
      ++in_rack[rack(n)];
    }
    const auto key = [&](int n) {
      const auto near = held_in_rack.find(rack(n));
      const int room = in_rack[rack(n)];
      return std::tuple(-held_on(jobs_[job].held, n), near == held_in_rack.end() ? 0 : -near->second, room < count,
                        room < count ? -room : room, rack(n), hoped_for_[at(n)], n);
    };
    std::sort(empty.begin(), empty.end(), [&](int a, int b) { return key(a) < key(b); });
    if (static_cast<int>(empty.size()) > count) empty.resize(static_cast<std::size_t>(count));
    return empty;
  }

  bool may_go(std::size_t other, std::size_t job) const {
    return !jobs_[other].fixed && placed_[other].size() == 1 && jobs_[other].gpus < jobs_[job].gpus;
  }

  // Evicts the jobs of the node with the fewest GPUs in use, if all of them may be moved. False:
  // there is no such node.
  bool clear_a_node(std::size_t job) {
    int best = -1;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      if (nodes_[at(n)].gpus < size_ || free_[at(n)] == size_) continue;
      if (best >= 0 && free_[at(n)] <= free_[at(best)]) continue;
      const auto& there = on_node_[at(n)];
      if (std::all_of(there.begin(), there.end(), [&](std::size_t other) { return may_go(other, job); })) best = n;
    }
    if (best < 0) return false;
    for (const std::size_t other : std::set(on_node_[at(best)])) evict(other);
    return true;
  }

  // Chooses a node for `gpus` GPUs, less than a whole node. Nodes where the fewest GPUs of smaller
  // jobs must move come first. Then the preference is: a node that the job holds, a node near the
  // rest of its GPUs, the fullest node with room.
  int node_with(std::size_t job, int gpus, const std::vector<int>& besides) {
    int best = -1, best_moved = 0;
    const auto key = [&](int n) {
      const bool near = !besides.empty() && rack(n) == rack(besides.front());
      return std::tuple(-std::min(gpus, held_on(jobs_[job].held, n)), !near, free_[at(n)], n);
    };
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      if (std::find(besides.begin(), besides.end(), n) != besides.end()) continue;
      const int moved = gpus_to_move(job, n, gpus - free_[at(n)]);
      if (moved < 0) continue;
      if (best < 0 || moved < best_moved || (moved == best_moved && key(n) < key(best))) best = n, best_moved = moved;
    }
    if (best >= 0)
      for (const std::size_t other : smallest_first(job, best))
        if (free_[at(best)] < gpus) evict(other);
    return best;
  }

  std::vector<std::size_t> smallest_first(std::size_t job, int node) const {
    std::vector<std::size_t> others;
    for (const std::size_t other : on_node_[at(node)])
      if (may_go(other, job)) others.push_back(other);
    std::stable_sort(others.begin(), others.end(),
                     [&](std::size_t a, std::size_t b) { return jobs_[a].gpus < jobs_[b].gpus; });
    return others;
  }

  // The GPUs of smaller jobs that must move, smallest job first, until `missing` are free. -1:
  // there are not enough.
  int gpus_to_move(std::size_t job, int node, int missing) const {
    int moved = 0;
    if (missing <= 0) return 0;
    for (const std::size_t other : smallest_first(job, node))
      if (moved < missing) moved += jobs_[other].gpus;
    return moved >= missing ? moved : -1;
  }

  static std::size_t at(int node) { return static_cast<std::size_t>(node); }
  int rack(int node) const { return nodes_[at(node)].rack; }

  const std::span<const PackedNode> nodes_;
  const std::span<const PackedJob> jobs_;
  int size_ = 1;  // GPUs of the largest node
  std::vector<int> free_;
  std::vector<Spread> placed_;
  std::vector<std::set<std::size_t>> on_node_;
  std::vector<int> hoped_for_;                   // GPUs on the node that changing jobs hold now
  std::set<std::pair<int, std::size_t>> queue_;  // -GPUs, job: large jobs first
};

}  // namespace

std::vector<Spread> pack(std::span<const PackedNode> nodes, std::span<const PackedJob> jobs) {
  return Packing(nodes, jobs).run();
}

}  // namespace espalier::sim
