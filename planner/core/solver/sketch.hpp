// A plan as the solvers see it: counts of GPUs per node, not their names. Shares and memory follow from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/model/memory.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// GPUs of one type on one node.
struct Piece {
  std::int32_t node = 0;
  std::int16_t type = 0;
  std::int16_t gpus = 0;
  bool operator==(const Piece&) const = default;
};

// Pieces are sorted by (node, type), at most one per pair; every piece's count is a multiple of tp.
struct StageSketch {
  int tp = 1;
  int layers = 0;
  std::vector<Piece> pieces;
  bool operator==(const StageSketch&) const = default;
  int gpus() const;
};

struct PlanSketch {
  int micro_batches = 1;
  std::vector<StageSketch> stages;
  bool operator==(const PlanSketch&) const = default;
  int gpus() const;
};

// One job to plan. Everything in it must outlive the solve; nothing in it changes.
struct Problem {
  const Hardware& hardware;
  const Topology& topology;
  const JobCoefficients& job;
  const PlanBounds& bounds;
};

// What a replica class can be told from: StageShape of `pieces` (any order, at most one per node and type) at this TP
// degree. Counts that are no multiple of tp make it infeasible: replicas == 0. More than StageShape::kMaxClasses
// classes: infeasible too.
StageShape stage_shape(const Problem& problem, std::span<const Piece> pieces, int tp);

// Sorted union of two piece lists.
std::vector<Piece> merge_pieces(std::span<const Piece> a, std::span<const Piece> b);

struct Score {
  double iteration_ms = 0;  // printed closed form; infinity when infeasible
  bool feasible() const;
};

// Layers balanced over the stages (weighted min-max, App. B) under their memory caps, for a given N_b. `layers` gets
// the split, one entry per stage. False when none fits.
bool balance_layers(const JobCoefficients& job, std::span<const StageRates> rates, std::span<const int> caps,
                    std::span<int> layers);

// Scores `sketch` as it is (its micro_batches, its layers): bounds, memory, printed iteration time.
Score score_sketch(const Problem& problem, const PlanSketch& sketch);

// The exact recurrence on the same.
double exact_sketch(const Problem& problem, const PlanSketch& sketch);

// Chooses N_b among the divisors of G (bounds permitting) and the layers; keeps the pieces. Writes both into `sketch`.
Score balance_sketch(const Problem& problem, PlanSketch& sketch);

}  // namespace espalier
