#include "planner/core/solver/gpu_states.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "planner/core/error.hpp"

namespace espalier {

// Enumerates all ways to take a stage of one TP degree from a state. A way is one option per cell.
// Ways that differ only by a permutation of equal nodes of a leaf, or of equal leaves, are visited
// once.
class GpuStates::Enumeration {
 public:
  Enumeration(const GpuStates& owner, int state, std::size_t tp_index)
      : owner_(owner), tp_index_(tp_index), counts_(owner.classes_.size()) {
    std::size_t before = 0, begin = 0;  // start of the previous leaf and of this leaf
    for (const char16_t cell : owner.at(state).cells) {
      if (cell != 0) {
        positions_.push_back({leaves_, cell, 0, -1});
        continue;
      }
      const std::size_t size = positions_.size() - begin;
      bool twins = owner.alike_ && leaves_ > 0 && begin - before == size;
      for (std::size_t i = 0; twins && i < size; ++i) twins = positions_[before + i].cell == positions_[begin + i].cell;
      for (std::size_t i = 0; twins && i < size; ++i) positions_[begin + i].twin = static_cast<int>(before + i);
      before = begin;
      begin = positions_.size();
      ++leaves_;
    }
    room_ = std::min(owner.most_replicas_,
                     (owner.problem_.bounds.max_gpus - owner.at(state).used) / owner.tp_degrees_[tp_index]);
  }

  // visit(shape, cells left) returns false to stop the enumeration.
  template <class Visit>
  void run(Visit visit) {
    go_on_ = true;
    descend(0, {}, visit);
  }

  // Replicas by class that the currently visited stage takes from position p.
  const CellTake& taken(std::size_t p) const { return option(p); }
  std::size_t positions() const { return positions_.size(); }

 private:
  struct Position {
    int leaf, cell, choice;
    int twin;  // the same position of the previous leaf if that leaf is equal; else -1
  };
  struct Partial {
    int replicas = 0, least = 0, level = -1, first_leaf = 0;
    bool leads = false;
    // This leaf's choices have so far equalled the previous leaf's.
    bool as_twin = true;
    int parts = 0, leaf_parts = 0;  // nodes and leaves of which the stage takes only a part
    // In this leaf: `took`: the stage takes something; `passed`: it leaves a node wholly or partly.
    bool took = false, passed = false;
  };

  const std::vector<CellTake>& options(std::size_t p) const {
    return owner_.options_[static_cast<std::size_t>(positions_[p].cell)][tp_index_];
  }
  const CellTake& option(std::size_t p) const { return options(p)[static_cast<std::size_t>(positions_[p].choice)]; }

  template <class Visit>
  void descend(std::size_t p, const Partial& before, Visit& visit) {
    if (p == positions_.size()) {
      if (before.replicas > 0) go_on_ = emit(before, visit);
      return;
    }
    Position& here = positions_[p];
    auto choices = options(p).size();
    const bool repeated = p > 0 && positions_[p - 1].leaf == here.leaf && positions_[p - 1].cell == here.cell;
    if (repeated) choices = static_cast<std::size_t>(positions_[p - 1].choice) + 1;
    const bool first_of_leaf = p == 0 || positions_[p - 1].leaf != here.leaf;
    const bool as_twin = here.twin >= 0 && (first_of_leaf || before.as_twin);
    const int twin_choice = as_twin ? positions_[static_cast<std::size_t>(here.twin)].choice : 0;
    if (as_twin) choices = std::min(choices, static_cast<std::size_t>(twin_choice) + 1);
    for (std::size_t choice = choices; go_on_ && choice-- > 0;) {
      here.choice = static_cast<int>(choice);
      const CellTake& take = option(p);
      Partial partial = before;
      partial.as_twin = as_twin && here.choice == twin_choice;
      partial.replicas += take.replicas;
      if (partial.replicas > room_) continue;
      if (owner_.how_.compact) {
        const bool all = choice + 1 == options(p).size();
        partial.parts += take.replicas > 0 && !all;
        if (first_of_leaf) partial.took = partial.passed = false;
        const bool in_parts = partial.took && partial.passed;
        partial.took = partial.took || take.replicas > 0;
        partial.passed = partial.passed || !all;
        partial.leaf_parts += !in_parts && partial.took && partial.passed;
        if (partial.parts > 1 || partial.leaf_parts > 1) continue;
      }
      if (take.replicas > 0) {
        if (partial.level < 0) partial.level = 0, partial.first_leaf = here.leaf, partial.least = take.replicas;
        else partial.level = std::max(partial.level, owner_.distance(partial.first_leaf, here.leaf));
        partial.least = std::min(partial.least, static_cast<int>(take.replicas));
        partial.leads = partial.leads || owner_.is_lead(here.cell);
        for (std::size_t c = 0; c < counts_.size(); ++c) counts_[c] += take.taken[c];
      }
      descend(p + 1, partial, visit);
      if (take.replicas > 0)
        for (std::size_t c = 0; c < counts_.size(); ++c) counts_[c] -= take.taken[c];
    }
    here.choice = 0;
  }

  template <class Visit>
  bool emit(const Partial& stage, Visit& visit) {
    StageShape shape;
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      if (counts_[c] == 0) continue;
      if (shape.class_count == StageShape::kMaxClasses) return true;
      shape.classes[static_cast<std::size_t>(shape.class_count++)] = {owner_.classes_[c].type, owner_.classes_[c].kind,
                                                                      counts_[c]};
    }
    shape.tp = owner_.tp_degrees_[tp_index_];
    shape.replicas = stage.replicas;
    shape.least_members = stage.least;
    shape.level = stage.level;
    shape.leads = stage.leads;
    write_left();
    return visit(shape, left_);
  }

  void write_left() {
    left_.clear();
    std::size_t p = 0;
    for (int leaf = 0; leaf < leaves_; ++leaf) {
      const std::size_t begin = left_.size();
      for (; p < positions_.size() && positions_[p].leaf == leaf; ++p) {
        const auto cell = static_cast<char16_t>(option(p).cell);
        if (cell == 0) continue;
        std::size_t at = left_.size();
        left_.push_back(cell);
        for (; at > begin && left_[at - 1] < cell; --at) left_[at] = left_[at - 1];
        left_[at] = cell;
      }
      left_.push_back(0);
    }
    if (owner_.alike_ && leaves_ > 1) owner_.sort_leaves(left_);
  }

  const GpuStates& owner_;
  const std::size_t tp_index_;
  std::vector<Position> positions_;
  int leaves_ = 0, room_ = 0;
  std::vector<std::int32_t> counts_;  // replicas by class
  Cells left_;
  bool go_on_ = true;
};

GpuStates::GpuStates(const Problem& problem, std::span<const int> tp_degrees, std::span<const Piece> available,
                     const Takes& takes)
    : problem_(problem), how_(takes), grain_(takes.unit) {
  ESPALIER_INVARIANT(takes.unit >= 1);
  std::vector<Piece> usable;
  int most = 0;  // the most usable GPUs of one type on one node
  for (const Piece& piece : available) {
    if (piece.gpus <= 0 || !problem.bounds.allows_type(piece.type)) continue;
    usable.push_back(piece);
    most = std::max<int>(most, piece.gpus);
  }
  for (const int tp : tp_degrees)
    if (tp <= most) tp_degrees_.push_back(tp);
  add_nodes(usable);
  add_leaves();
  const PlanBounds& bounds = problem.bounds;
  most_replicas_ = problem.job.global_batch / std::max(1, bounds.fixed_micro_batches);
  if (bounds.fixed_dp > 0) most_replicas_ = std::min(most_replicas_, bounds.fixed_dp);
  // add_cell_takes appends the cells that can be left.
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    options_.emplace_back();
    for (const int tp : tp_degrees_) add_cell_takes(static_cast<int>(cell), tp);
  }
  sort_nodes(nodes_);
  intern_state(cells_of(nodes_));
}

void GpuStates::add_nodes(std::span<const Piece> usable) {
  const auto class_of = [&](const Piece& piece) {
    const int kind = problem_.topology.kind(piece.node);
    return std::find_if(classes_.begin(), classes_.end(),
                        [&](const GpuClass& c) { return c.type == piece.type && c.kind == kind; });
  };
  for (const Piece& piece : usable) {
    if (class_of(piece) == classes_.end())
      classes_.push_back({piece.type, static_cast<std::int16_t>(problem_.topology.kind(piece.node)), 0});
    class_of(piece)->gpus += piece.gpus;
    grain_ = std::gcd(grain_, static_cast<int>(piece.gpus));
  }
  std::sort(classes_.begin(), classes_.end(), [](const GpuClass& a, const GpuClass& b) {
    return std::tuple(a.type, a.kind) < std::tuple(b.type, b.kind);
  });
  for (const GpuClass& one : classes_) {
    strides_.push_back(pools_);
    pools_ *= static_cast<std::size_t>(one.gpus / grain_) + 1;
  }
  intern_cell(Cell(classes_.size() + 1));
  for (std::size_t i = 0; i < usable.size();) {
    const int id = usable[i].node;
    Cell gpus(classes_.size() + 1);
    gpus.back() = id == problem_.bounds.lead_node;
    for (; i < usable.size() && usable[i].node == id; ++i)
      gpus[static_cast<std::size_t>(class_of(usable[i]) - classes_.begin())] = usable[i].gpus;
    nodes_.push_back({id, 0, intern_cell(gpus)});
  }
}

void GpuStates::add_leaves() {
  std::vector<int> leaves;  // one node of each leaf
  for (Node& node : nodes_) {
    const auto leaf = std::find_if(leaves.begin(), leaves.end(),
                                   [&](int other) { return problem_.topology.distance(other, node.id) <= 1; });
    node.leaf = static_cast<int>(leaf - leaves.begin());
    if (leaf == leaves.end()) leaves.push_back(node.id);
  }
  for (const int a : leaves) {
    leaf_distance_.emplace_back();
    for (const int b : leaves) leaf_distance_.back().push_back(a == b ? 1 : problem_.topology.distance(a, b));
  }
  for (std::size_t a = 0; a < leaves.size(); ++a)
    for (std::size_t b = 0; b < leaves.size(); ++b)
      alike_ = alike_ && (a == b || leaf_distance_[a][b] == leaf_distance_[0][1]);
}

// Adds the ways to take replicas from a node: of every class whole units, or whole units plus the
// remainder.
void GpuStates::add_cell_takes(int cell, int tp) {
  std::vector<CellTake> takes;
  const Cell from = cells_[static_cast<std::size_t>(cell)];
  CellTake take;
  take.taken.resize(classes_.size());
  Cell left = from;
  const auto choose = [&](auto&& self, std::size_t c) -> void {
    if (c == classes_.size()) {
      take.cell = static_cast<std::int16_t>(intern_cell(left));
      takes.push_back(take);
      return;
    }
    for (int gpus = 0; gpus <= from[c]; gpus += tp) {
      if (gpus % how_.unit != 0 && gpus % how_.unit != from[c] % how_.unit) continue;
      const auto replicas = static_cast<std::int16_t>(gpus / tp);
      take.taken[c] = replicas;
      take.replicas = static_cast<std::int16_t>(take.replicas + replicas);
      left[c] = static_cast<std::int16_t>(from[c] - gpus);
      self(self, c + 1);
      left[c] = from[c];
      take.replicas = static_cast<std::int16_t>(take.replicas - replicas);
      take.taken[c] = 0;
    }
  };
  choose(choose, 0);
  options_[static_cast<std::size_t>(cell)].push_back(std::move(takes));
}

int GpuStates::intern_cell(const Cell& gpus) {
  const auto id = static_cast<std::size_t>(std::find(cells_.begin(), cells_.end(), gpus) - cells_.begin());
  if (id == cells_.size()) cells_.push_back(gpus);
  return static_cast<int>(id);
}

int GpuStates::intern_shape(const StageShape& shape) {
  const auto [at, added] = shape_ids_.try_emplace(shape, shapes());
  if (added) shapes_.push_back(shape);
  return at->second;
}

int GpuStates::intern_state(const Cells& cells) {
  const auto known = state_ids_.find(std::u16string_view(cells));
  if (known != state_ids_.end()) return known->second;
  const int id = states();
  state_ids_.emplace(cells, id);
  State state;
  state.cells = cells;
  state.rest.resize(classes_.size());
  for (const char16_t cell : cells)
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      state.rest[c] = static_cast<std::int16_t>(state.rest[c] + cells_[cell][c]);
      if (is_lead(cell)) state.lead_gpus += cells_[cell][c];
    }
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    state.used += classes_[c].gpus - state.rest[c];
    state.pool += strides_[c] * static_cast<std::size_t>(state.rest[c] / grain_);
  }
  states_.push_back(std::move(state));
  return id;
}

std::span<const Take> GpuStates::takes(int state, std::size_t most) {
  if (!at(state).enumerated) {
    std::vector<Take> found;
    for (std::size_t tp = 0; tp < tp_degrees_.size(); ++tp) {
      const std::size_t limit = found.size() + std::max<std::size_t>(1, most / tp_degrees_.size());
      Enumeration(*this, state, tp).run([&](const StageShape& shape, const Cells& left) {
        if (found.size() == limit) return whole_ = false;
        found.push_back({intern_shape(shape), intern_state(left)});
        return true;
      });
    }
    std::sort(found.begin(), found.end(),
              [](const Take& a, const Take& b) { return std::tuple(a.shape, a.next) < std::tuple(b.shape, b.next); });
    found.erase(std::unique(found.begin(), found.end()), found.end());
    State& into = states_[static_cast<std::size_t>(state)];
    into.enumerated = true;
    into.takes = std::move(found);
  }
  return at(state).takes;
}

void GpuStates::sort_leaves(Cells& cells) const {
  std::vector<Cells> leaves;
  for (std::size_t begin = 0; begin < cells.size();) {
    const std::size_t end = cells.find(u'\0', begin) + 1;
    leaves.push_back(cells.substr(begin, end - begin));
    begin = end;
  }
  std::sort(leaves.begin(), leaves.end(), std::greater<>());
  cells.clear();
  for (const Cells& leaf : leaves) cells += leaf;
}

GpuStates::Cells GpuStates::cells_of(std::span<const Node> nodes) const {
  Cells cells;
  std::size_t n = 0;
  for (std::size_t leaf = 0; leaf < leaf_distance_.size(); ++leaf) {
    for (const int of = n < nodes.size() ? nodes[n].leaf : 0; n < nodes.size() && nodes[n].leaf == of; ++n)
      if (nodes[n].cell != 0) cells.push_back(static_cast<char16_t>(nodes[n].cell));
    cells.push_back(0);
  }
  return cells;
}

void GpuStates::sort_nodes(std::vector<Node>& nodes) const {
  std::stable_sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
    return std::tuple(a.leaf, -a.cell) < std::tuple(b.leaf, -b.cell);
  });
  if (!alike_) return;
  std::vector<Cells> by_leaf(leaf_distance_.size());
  for (const Node& node : nodes)
    if (node.cell != 0) by_leaf[static_cast<std::size_t>(node.leaf)].push_back(static_cast<char16_t>(node.cell));
  std::stable_sort(nodes.begin(), nodes.end(), [&](const Node& a, const Node& b) {
    const Cells &in_a = by_leaf[static_cast<std::size_t>(a.leaf)], &in_b = by_leaf[static_cast<std::size_t>(b.leaf)];
    return std::tie(in_b, a.leaf) < std::tie(in_a, b.leaf);
  });
}

std::vector<std::vector<Piece>> GpuStates::pieces(std::span<const Take> taken) const {
  std::vector<std::vector<Piece>> result;
  auto nodes = nodes_;
  int state = 0;
  for (const Take& take : taken) {
    sort_nodes(nodes);
    std::vector<Piece>& stage = result.emplace_back();
    const StageShape& wanted = shape(take.shape);
    const auto degree = std::find(tp_degrees_.begin(), tp_degrees_.end(), wanted.tp) - tp_degrees_.begin();
    Enumeration ways(*this, state, static_cast<std::size_t>(degree));
    ways.run([&](const StageShape& got, const Cells& left) {
      if (got != wanted || left != at(take.next).cells) return true;
      for (std::size_t n = 0, p = 0; p < ways.positions(); ++n) {
        if (nodes[n].cell == 0) continue;
        const CellTake& from = ways.taken(p++);
        nodes[n].cell = from.cell;
        for (std::size_t c = 0; c < classes_.size(); ++c)
          if (from.taken[c] > 0)
            stage.push_back({nodes[n].id, classes_[c].type, static_cast<std::int16_t>(from.taken[c] * wanted.tp)});
      }
      return false;
    });
    ESPALIER_INVARIANT(!stage.empty());
    std::sort(stage.begin(), stage.end(),
              [](const Piece& a, const Piece& b) { return std::tuple(a.node, a.type) < std::tuple(b.node, b.type); });
    state = take.next;
  }
  return result;
}

}  // namespace espalier
