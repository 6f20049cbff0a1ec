// The GPUs that a plan under construction has left: the states of the Pareto dynamic programme, and
// the stages that can be taken from each state. States that differ only by interchangeable nodes
// are the same.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "planner/core/solver/evaluator.hpp"

namespace espalier {

// One way to take a stage from a state's GPUs.
struct Take {
  std::int32_t shape = 0;  // GpuStates::shape()
  std::int32_t next = 0;   // the state that remains
  bool operator==(const Take&) const = default;
};

// GPUs of one type on one kind of node. A stage does not distinguish them, except by their spread
// over nodes.
struct GpuClass {
  std::int16_t type = 0, kind = 0;
  int gpus = 0;  // available
};

// States are numbered in the order of discovery. State 0 has all GPUs. Nodes under one leaf switch
// are interchangeable if they have the same kind and the same GPUs left. Whole leaves are
// interchangeable if all leaves are equally far from each other. The problem's parts must outlive
// this object.
class GpuStates {
 public:
  struct Takes {
    // GPUs of one node and type are taken this many at a time. The remainder goes as one.
    int unit = 1;
    // A stage may take part of at most one node, and part of at most one leaf. This leaves far
    // fewer ways.
    bool compact = false;
  };
  GpuStates(const Problem& problem, std::span<const int> tp_degrees, std::span<const Piece> available,
            const Takes& takes);

  int states() const { return static_cast<int>(states_.size()); }
  int used(int state) const { return at(state).used; }  // GPUs
  // Whether the first stage can still have GPUs of the lead node, if there is one.
  bool can_lead(int state) const { return problem_.bounds.lead_node < 0 || at(state).lead_gpus > 0; }
  // GPUs left, by class.
  std::span<const std::int16_t> rest(int state) const { return at(state).rest; }
  const std::vector<GpuClass>& classes() const { return classes_; }
  // Every class's GPUs are taken in multiples of the grain. A pool is a number of grains of every
  // class, without regard to nodes. A grain of class c adds strides()[c] to the pool's index. Pool
  // 0 is empty.
  int grain() const { return grain_; }
  std::size_t pool(int state) const { return at(state).pool; }
  std::size_t pools() const { return pools_; }
  const std::vector<std::size_t>& strides() const { return strides_; }
  // TP degrees that the GPUs of one type on one node can form.
  const std::vector<int>& tp_degrees() const { return tp_degrees_; }

  // The ways to take a stage from `state`, sorted by shape. The first call enumerates them and
  // keeps at most about `most`. whole() is false once a state had more. The span is valid until
  // takes() enumerates another state.
  std::span<const Take> takes(int state, std::size_t most);
  bool enumerated(int state) const { return at(state).enumerated; }
  bool whole() const { return whole_; }

  int shapes() const { return static_cast<int>(shapes_.size()); }
  const StageShape& shape(int id) const { return shapes_[static_cast<std::size_t>(id)]; }

  // The sorted pieces of each stage when the stages in `taken` are taken one after the other,
  // starting with state 0.
  std::vector<std::vector<Piece>> pieces(std::span<const Take> taken) const;

 private:
  // For every leaf switch: the cell ids of its nodes that are not empty, in falling order, then a
  // 0.
  using Cells = std::u16string;
  struct State {
    Cells cells;
    std::vector<std::int16_t> rest;
    std::size_t pool = 0;
    int used = 0, lead_gpus = 0;
    bool enumerated = false;
    std::vector<Take> takes;
  };
  struct Node {
    int id = 0, leaf = 0, cell = 0;
  };
  // The GPUs that one node has left, by class, then whether it is the lead node (PlanBounds). Cell
  // 0 is empty.
  using Cell = std::vector<std::int16_t>;
  struct CellTake {
    std::int16_t cell = 0, replicas = 0;  // cell: what remains; replicas: taken
    std::vector<std::int16_t> taken;      // replicas by class
  };
  struct CellsHash {
    using is_transparent = void;
    std::size_t operator()(std::u16string_view cells) const { return std::hash<std::u16string_view>()(cells); }
  };
  class Enumeration;

  const State& at(int state) const { return states_[static_cast<std::size_t>(state)]; }
  bool is_lead(int cell) const { return cells_[static_cast<std::size_t>(cell)].back() != 0; }
  void add_nodes(std::span<const Piece> available);
  void add_leaves();
  void add_cell_takes(int cell, int tp);
  int intern_cell(const Cell& gpus);
  int intern_shape(const StageShape& shape);
  int intern_state(const Cells& cells);
  // Sorts nodes into the order in which a state lists their cells.
  void sort_nodes(std::vector<Node>& nodes) const;
  void sort_leaves(Cells& cells) const;
  Cells cells_of(std::span<const Node> nodes) const;  // `nodes` must be sorted
  int distance(int leaf_a, int leaf_b) const {
    return leaf_distance_[static_cast<std::size_t>(leaf_a)][static_cast<std::size_t>(leaf_b)];
  }

  const Problem problem_;
  std::vector<int> tp_degrees_;
  const Takes how_;
  int grain_ = 1;
  std::vector<std::size_t> strides_;
  std::size_t pools_ = 1;
  int most_replicas_ = 0;
  bool whole_ = true;
  std::vector<GpuClass> classes_;
  std::vector<Node> nodes_;
  std::vector<std::vector<int>> leaf_distance_;
  bool alike_ = true;  // leaves are interchangeable
  std::vector<Cell> cells_;
  // By cell, by index of the TP degree; the first option takes nothing.
  std::vector<std::vector<std::vector<CellTake>>> options_;
  std::vector<State> states_;
  std::unordered_map<Cells, int, CellsHash, std::equal_to<>> state_ids_;
  std::vector<StageShape> shapes_;
  std::unordered_map<StageShape, int, StageShapeHash> shape_ids_;
};

}  // namespace espalier
