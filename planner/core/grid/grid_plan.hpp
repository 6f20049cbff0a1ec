// Plans of one of Arena's grids: a job on some GPUs of one type with a fixed number of stages (Arena
// §3.2). Stages have powers of two of GPUs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/core/solver/evaluator.hpp"

namespace espalier {

struct GridStage {
  int layers = 0;
  int gpus = 0;
  int tp = 1;  // gpus / tp replicas
  bool operator==(const GridStage&) const = default;
};

struct GridPlan {
  std::vector<GridStage> stages;
  // B_comp (eq. 3): Euclidean distance between the GPUs that the stages' loads ask for and those that
  // they have. 0: perfectly balanced.
  double imbalance = 0;
  // C_comm (eq. 4): ms of communication inside stages in an iteration.
  double communication = 0;
  bool operator==(const GridPlan&) const = default;
};

// The plan on exactly these GPUs (sorted pieces of one type) at its fastest N_b, by the printed time.
// Stages take the GPUs in the order of their size, so that no stage spans more nodes than it must.
// nullopt: it does not fit, or a TP group would span nodes.
std::optional<Solution> grid_solution(Evaluator& evaluator, const GridPlan& plan, std::span<const Piece> gpus);

// Of every stage, in order: its pieces, when stages take `gpus` as above.
std::vector<std::vector<Piece>> stage_pieces(std::span<const int> stage_gpus, std::span<const Piece> gpus);

}  // namespace espalier
