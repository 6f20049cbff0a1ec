// Metis (ATC '24) as Suika's evaluation uses it (§5.1): in the place of Algorithm 1, every (job, allocation) solved
// from scratch, each within a time budget.
#pragma once

#include "planner/core/solver/algorithm1.hpp"

namespace espalier::sim {

struct MetisOptions {
  double budget_seconds = 60;  // a search that takes longer yields no plan (Suika §5.1)
  int cores = 128;             // that searches run on in parallel: those of the paper's nodes
  long labels = 20'000;        // of our search for its plan: with five times as many none of 32 plans was faster
};

// CPU seconds that Metis takes for one allocation of so many GPUs: its own code, measured on LLaMA2-13B (42 layers,
// global batch 128, equal GPUs): 8 GPUs 0.13 s, 16: 2.4 s, 32: 19 s, 64: 75 s; in between and beyond, lines on double
// logarithmic paper. Of the plan space alone, not of the machine, so that results do not depend on one.
double metis_seconds(int gpus);

// How long searches of these lengths take on so many cores, at the least: each runs on one.
double parallel_seconds(double longest, double all, int cores);

// Its plans are as good as our search over the same space finds (with Metis's own pruning, min_group_scale_variance
// and max_permute_len, they would be worse).
class MetisSolver final : public PrefixSolver {
 public:
  explicit MetisSolver(const MetisOptions& options = {}) : options_(options) {}
  std::vector<PrefixPlan> solve(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                std::vector<PrefixPlan> known) override;

  // Simulated time of the searches since the last call: those of one decision run in parallel.
  double take_seconds();

 private:
  const MetisOptions options_;
  double longest_ = 0, all_ = 0;
};

}  // namespace espalier::sim
