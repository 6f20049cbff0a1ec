#include "planner/core/model/communication_time.hpp"

#include <algorithm>

namespace espalier {

double rail_bandwidth(const NodeKind& kind, double rail_ms_per_byte) {
  return rail_ms_per_byte > 0 ? std::min(kind.nic_bandwidth, 1 / rail_ms_per_byte) : kind.nic_bandwidth;
}

// A ring sends 2 (1 - 1/t) times the bytes per GPU.
double tensor_sum_ms(const Hardware& hardware, int kind, int tp, double bytes) {
  if (tp <= 1) return 0;
  const double once = bytes * 2 * (1 - 1.0 / tp);
  return once / (hardware.kinds[static_cast<std::size_t>(kind)].tp_bandwidth * saturation(hardware, once));
}

// "Modeling DP": every TP rank has a ring over the replicas. Between nodes all rings of a node
// share its rails. The node with the fewest members slows all others down.
double gradient_rate(const Hardware& hardware, const StageShape& shape, double rail_ms_per_byte) {
  if (shape.replicas <= 1) return 0;
  const double sent = 2 * (1 - 1.0 / shape.replicas);
  double slowest = 0;
  for (int c = 0; c < shape.class_count; ++c) {
    const NodeKind& kind = hardware.kinds[static_cast<std::size_t>(shape.classes[static_cast<std::size_t>(c)].kind)];
    double bandwidth = shape.tp * kind.dp_bandwidth;
    if (shape.level > 0) {
      const int members = shape.least_members * shape.tp;
      const int rails = kind.nics > 0 ? std::min(members, kind.nics) : members;
      bandwidth = rails * rail_bandwidth(kind, rail_ms_per_byte);
      for (int level = 1; level < shape.level; ++level) bandwidth *= hardware.crossing;
    }
    slowest = std::max(slowest, sent / bandwidth);
  }
  return slowest;
}

double send_ms(const Hardware& hardware, double activation_bytes, const PlacedStage& from, const PlacedStage& to,
               double rail_ms_per_byte) {
  double near = 0, far = 0;
  for (const PlacedStage* stage : {&from, &to})
    for (int c = 0; c < stage->shape.class_count; ++c) {
      const auto& replicas = stage->shape.classes[static_cast<std::size_t>(c)];
      const NodeKind& kind = hardware.kinds[static_cast<std::size_t>(replicas.kind)];
      double rail = rail_bandwidth(kind, rail_ms_per_byte);
      if (kind.nics > 0 && kind.nics < stage->gpus_per_node)
        rail *= static_cast<double>(kind.nics) / stage->gpus_per_node;
      for (int level = 1; level < from.next.level; ++level) rail *= hardware.crossing;
      near = std::max(near, from.next.near_samples * activation_bytes / kind.dp_bandwidth);
      far = std::max(far, from.next.far_samples * activation_bytes / rail);
    }
  return std::max(near, far);
}

}  // namespace espalier
