// Arena's planner without execution (Arena §3.3): the plans of one grid that may be the best by
// balance of computation and by communication, and the one of them that stands for the grid.
//
// The paper leaves these choices open:
// - Layers are identical but for the first and the last one. A model with many layers is split at
//   multiples of some layers, so that a grid has at most kMostPartitions partitions.
// - The cost of a communication operator is its time by the performance model.
// - A plan's memory is checked with the performance model at its fastest N_b. The metrics take N_b
//   nearest to the number of stages (§5.1).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/core/grid/grid_plan.hpp"

namespace espalier {

inline constexpr int kMostFrontierPlans = 32;  // the paper's threshold, from its artifact
inline constexpr int kMostPartitions = 1000;

// The non-dominated plans of the grid, at most kMostFrontierPlans: the proxy plan first, then by
// imbalance. `gpus`: sorted pieces of one type, a power of two in all. Empty: nothing fits.
std::vector<GridPlan> grid_frontier(Evaluator& evaluator, std::span<const Piece> gpus, int stages);

// A grid by its number of stages, with its proxy plan.
struct Proxy {
  int stages = 0;
  Solution solution;
  std::vector<GridPlan> frontier;
};

// The proxy plans of the grids with 1, 2, 4, ... stages. Grids where nothing fits are absent.
std::vector<Proxy> grid_proxies(Evaluator& evaluator, std::span<const Piece> gpus);

// The fastest of the proxy plans, which stands for the job on these GPUs (§3.5). nullopt: none fits.
std::optional<Proxy> best_proxy(Evaluator& evaluator, std::span<const Piece> gpus);

// Share of the mean GPUs of a stage that every stage's load must ask for; other partitions are not
// looked at (the artifact's 0.7).
inline constexpr double kLeastStageShare = 0.7;

// All splits of `layers` into `stages` runs of layers, at multiples of as few layers as keep their
// number at kMostPartitions. Each entry: layers by stage.
std::vector<std::vector<int>> layer_partitions(int layers, int stages);

// GPUs by stage: powers of two with sum `gpus` that are nearest to `wanted`. Empty: impossible.
std::vector<int> nearest_powers(std::span<const double> wanted, int gpus);

// The share of the GPUs that each stage's computation asks for, in GPUs.
std::vector<double> wanted_gpus(const JobCoefficients& job, std::span<const int> layers, int gpus);

double imbalance_of(std::span<const double> wanted, std::span<const int> gpus);

}  // namespace espalier
