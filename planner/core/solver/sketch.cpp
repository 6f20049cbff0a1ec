#include "planner/core/solver/sketch.hpp"

#include <algorithm>
#include <climits>
#include <tuple>

namespace espalier {
namespace {

bool before(const Piece& a, const Piece& b) { return std::tuple(a.node, a.type) < std::tuple(b.node, b.type); }

// Calls visit(piece) for every piece of the union, in order.
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

StageShape shape_of(const Problem& problem, std::span<const Piece> pieces, int tp) {
  for (const Piece& piece : pieces)
    if (piece.gpus % tp != 0) return {};
  StageShape shape;
  shape.tp = tp;
  if (pieces.empty()) return shape;
  const Topology& topology = problem.topology;
  const int first_node = pieces.front().node;
  // Leaf of the previous node. Neighbours mostly share it, and then they have the same distance.
  int leaf = topology.leaf(first_node);
  int least = INT_MAX, members = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const int replicas = piece.gpus / tp;
    if (!add_replicas(shape, piece.type, topology.kind(piece.node), replicas)) return {};
    if (i > 0 && piece.node != pieces[i - 1].node) {
      least = std::min(least, members);
      members = 0;
      const int here = topology.leaf(piece.node);
      if (here != leaf || shape.level == 0) {
        shape.level = std::max(shape.level, topology.distance(first_node, piece.node));
        leaf = here;
      }
    }
    members += replicas;
    shape.leads = shape.leads || piece.node == problem.bounds.lead_node;
  }
  shape.least_members = std::min(least, members);
  return shape;
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
  if (more.empty()) return shape_of(problem, pieces, tp);
  return shape_of(problem, merge_pieces(pieces, more), tp);
}

void merge_pieces(std::span<const Piece> pieces, std::span<const Piece> more, std::vector<Piece>& merged) {
  merged.clear();
  for_union(pieces, more, [&](const Piece& piece) { merged.push_back(piece); });
}

std::vector<Piece> merge_pieces(std::span<const Piece> pieces, std::span<const Piece> more) {
  std::vector<Piece> merged;
  merged.reserve(pieces.size() + more.size());
  merge_pieces(pieces, more, merged);
  return merged;
}

bool fits(const PlanSketch& plan, std::span<const Piece> available) {
  std::vector<Piece> left(available.begin(), available.end());
  for (const StageSketch& stage : plan.stages)
    for (const Piece& piece : stage.pieces) {
      const auto at = std::lower_bound(left.begin(), left.end(), piece, [](const Piece& a, const Piece& b) {
        return std::tuple(a.node, a.type) < std::tuple(b.node, b.type);
      });
      if (at == left.end() || at->node != piece.node || at->type != piece.type || at->gpus < piece.gpus) return false;
      at->gpus = static_cast<std::int16_t>(at->gpus - piece.gpus);
    }
  return true;
}

}  // namespace espalier
