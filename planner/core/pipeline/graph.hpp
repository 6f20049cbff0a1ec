// The graph of a step's execution (FlexTrain §4.2): a node for each computation, an edge from each rank's computation
// to its next one, and edges of data between chunks, with the time of the message. Answers fast how long an order
// takes, and what its critical path is. Pure.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planner/core/pipeline/order.hpp"

namespace espalier::pipeline {

// A node's place in an order.
struct Place {
  int rank = 0, at = 0;
};

class Graph {
 public:
  explicit Graph(const SearchProblem& problem);

  // Longest path through the order; nullopt: it deadlocks. `order` must hold every computation once.
  std::optional<double> time(const Order& order);
  // The same time as the end of the rank that ends last, and the sum of the ends of all ranks, to choose between equal
  // times.
  double sum_of_ends() const { return sum_of_ends_; }

  // Of the order that time() saw last: a path of nodes without slack, last node first. A node follows the one before it
  // on the same rank or by data.
  std::vector<Place> critical_path(const Order& order) const;

  double seconds(const Step& step) const {
    return seconds_[static_cast<std::size_t>(step.chunk)][static_cast<std::size_t>(step.kind)];
  }
  std::int64_t nodes() const { return nodes_; }

 private:
  struct Cursor {
    std::size_t at = 0;
    double clock = 0;
  };
  std::size_t cell(int chunk, int micro_batch) const {
    return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(micro_batches_) +
           static_cast<std::size_t>(micro_batch);
  }

  const SearchProblem& problem_;
  const int ranks_, chunks_, micro_batches_;
  std::int64_t nodes_ = 0;
  std::vector<std::array<double, 4>> seconds_;      // by chunk and kind
  std::vector<double> forward_hop_, backward_hop_;  // from the chunk to the next one, to the one before
  // Of the last order.
  std::vector<double> forward_end_, backward_end_;  // by chunk and micro-batch; below 0: not yet
  std::vector<Place> forward_place_, backward_place_;
  std::vector<int> forwards_, backwards_;  // of each chunk so far
  std::vector<Cursor> cursors_;            // by rank
  std::vector<std::vector<double>> ends_;  // by rank and place
  std::vector<int> waiting_;               // a stack of ranks that can go on
  double sum_of_ends_ = 0;
};

}  // namespace espalier::pipeline
