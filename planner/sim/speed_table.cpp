#include "planner/sim/speed_table.hpp"

#include <algorithm>
#include <cmath>

namespace espalier::sim {
namespace {
constexpr double kShareOfHalvedSpread = 0.9;
}  // namespace

void SpeedTable::add(int type, int gpus, int per_node, double fastest, double data_parallel) {
  auto& list = points_[{type, gpus}];
  list.push_back({per_node, fastest, data_parallel});
  std::sort(list.begin(), list.end(), [](const Point& a, const Point& b) { return a.per_node > b.per_node; });
}

double SpeedTable::seconds(int type, int gpus, int per_node) const {
  const auto found = points_.find({type, gpus});
  if (found == points_.end()) return 0;
  // The measured spread that is the nearest among those that are no wider; else the widest measured one.
  const Point* nearest = nullptr;
  for (const Point& point : found->second)
    if (point.per_node >= per_node) nearest = &point;
  if (nearest == nullptr) return found->second.front().fastest;
  const double halvings = std::log2(static_cast<double>(nearest->per_node) / std::max(1, per_node));
  return nearest->fastest / std::pow(kShareOfHalvedSpread, halvings);
}

double SpeedTable::fastest(int type, int gpus) const {
  const auto found = points_.find({type, gpus});
  if (found == points_.end()) return 0;
  double least = found->second.front().fastest;
  for (const Point& point : found->second) least = std::min(least, point.fastest);
  return least;
}

double SpeedTable::data_parallel(int type, int gpus) const {
  const auto found = points_.find({type, gpus});
  if (found == points_.end()) return 0;
  double least = 0;
  for (const Point& point : found->second)
    if (point.data_parallel > 0 && (least == 0 || point.data_parallel < least)) least = point.data_parallel;
  return least;
}

bool SpeedTable::has_data_parallel() const {
  for (const auto& [where, list] : points_)
    for (const Point& point : list)
      if (point.data_parallel > 0) return true;
  return false;
}

std::vector<int> SpeedTable::counts(int type) const {
  std::vector<int> counts;
  for (const auto& [where, list] : points_)
    if (where.first == type) counts.push_back(where.second);
  return counts;
}

std::optional<double> SpeedTable::seconds(const Site& site, const Plan& plan) const {
  std::map<std::string, int> on_node;
  int type = -1;
  for (const GpuId& gpu : plan.ranks()) {
    const int node = site.topology.find(gpu.node);
    if (node < 0) return std::nullopt;
    const int here = site.topology.gpu_types(node)[static_cast<std::size_t>(gpu.index)];
    if (type >= 0 && here != type) return std::nullopt;
    type = here;
    ++on_node[gpu.node];
  }
  int most = 0;
  for (const auto& [node, gpus] : on_node) most = std::max(most, gpus);
  const double seconds = this->seconds(type, plan.gpu_count(), most);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

}  // namespace espalier::sim
