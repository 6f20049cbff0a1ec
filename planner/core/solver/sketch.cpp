#include "planner/core/solver/sketch.hpp"

#include <algorithm>
#include <tuple>

namespace espalier {
namespace {

bool before(const Piece& a, const Piece& b) { return std::tuple(a.node, a.type) < std::tuple(b.node, b.type); }

// Calls visit(node, type, gpus) for the union in order.
template <class Visit>
void for_union(std::span<const Piece> a, std::span<const Piece> b, Visit visit) {
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    Piece piece;
    if (j == b.size() || (i < a.size() && before(a[i], b[j]))) piece = a[i++];
    else if (i == a.size() || before(b[j], a[i])) piece = b[j++];
    else {
      piece = a[i++];
      piece.gpus = static_cast<std::int16_t>(piece.gpus + b[j++].gpus);
    }
    visit(piece);
  }
}

// False when there is no room for another class.
bool add_replicas(StageShape& shape, int type, int kind, int replicas) {
  int at = 0;
  const auto key = [&](int c) {
    const ReplicaClass& one = shape.classes[static_cast<std::size_t>(c)];
    return std::tuple<int, int>(one.type, one.kind);
  };
  while (at < shape.class_count && key(at) < std::tuple(type, kind)) ++at;
  if (at == shape.class_count || key(at) != std::tuple(type, kind)) {
    if (shape.class_count == StageShape::kMaxClasses) return false;
    for (int c = shape.class_count++; c > at; --c)
      shape.classes[static_cast<std::size_t>(c)] = shape.classes[static_cast<std::size_t>(c - 1)];
    shape.classes[static_cast<std::size_t>(at)] = {static_cast<std::int16_t>(type), static_cast<std::int16_t>(kind), 0};
  }
  shape.classes[static_cast<std::size_t>(at)].replicas += replicas;
  shape.replicas += replicas;
  return true;
}

}  // namespace

int count_gpus(std::span<const Piece> pieces) {
  int sum = 0;
  for (const Piece& piece : pieces) sum += piece.gpus;
  return sum;
}

int StageSketch::gpus() const { return count_gpus(pieces); }

int PlanSketch::gpus() const {
  int sum = 0;
  for (const StageSketch& stage : stages) sum += stage.gpus();
  return sum;
}

StageShape stage_shape(const Problem& problem, std::span<const Piece> pieces, std::span<const Piece> more, int tp) {
  StageShape shape;
  shape.tp = tp;
  int first_node = -1, node = -1, members = 0;
  bool whole = true;
  const auto close_node = [&] {
    if (node >= 0) shape.least_members = shape.least_members == 0 ? members : std::min(shape.least_members, members);
  };
  for_union(pieces, more, [&](const Piece& piece) {
    if (!whole) return;
    const int replicas = piece.gpus / tp;
    whole = replicas * tp == piece.gpus && add_replicas(shape, piece.type, problem.topology.kind(piece.node), replicas);
    if (piece.node != node) {
      close_node();
      node = piece.node;
      members = 0;
      if (first_node < 0) first_node = node;
      if (node == problem.bounds.lead_node) shape.leads = true;
      shape.level = std::max(shape.level, problem.topology.distance(first_node, node));
    }
    members += replicas;
  });
  close_node();
  if (!whole) return {};
  return shape;
}

std::vector<Piece> merge_pieces(std::span<const Piece> pieces, std::span<const Piece> more) {
  std::vector<Piece> merged;
  merged.reserve(pieces.size() + more.size());
  for_union(pieces, more, [&](const Piece& piece) { merged.push_back(piece); });
  return merged;
}

}  // namespace espalier
