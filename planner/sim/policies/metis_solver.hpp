// Metis (ATC '24) as Suika's evaluation uses it (§5.1). It replaces Algorithm 1 and solves every
// (job, allocation) from scratch, each within a time budget.
#pragma once

#include "planner/core/solver/algorithm1.hpp"

namespace espalier::sim {

struct MetisOptions {
  double budget_seconds = 60;  // a search that takes longer yields no plan (Suika §5.1)
  // Cores on which searches run in parallel, as on the paper's nodes.
  int cores = 128;
  // Work limit of Espalier's search, which finds Metis's plan. With a limit five times as large
  // none of 32 plans was faster.
  long labels = 20'000;
};

// CPU seconds that Metis takes for one allocation of `gpus` GPUs. Measured with Metis's own code on
// LLaMA2-13B (42 layers, global batch 128, equal GPUs): 8 GPUs take 0.13 s, 16 take 2.4 s, 32 take
// 19 s, 64 take 75 s. Other values lie on lines in a double logarithmic plot. The time depends on
// the plan space alone, so that results do not depend on the machine.
double metis_seconds(int gpus);

// Least time of such searches on `cores` cores, with one core per search. `longest`: the longest
// search, `all`: the sum of all searches.
double parallel_seconds(double longest, double all, int cores);

// Its plans are as good as Espalier's search over the same space finds. Metis's own pruning
// (min_group_scale_variance and max_permute_len) would make them worse.
class MetisSolver final : public PrefixSolver {
 public:
  explicit MetisSolver(const MetisOptions& options = {}) : options_(options) {}
  std::vector<PrefixPlan> solve(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                std::vector<PrefixPlan> known) override;

  // Simulated time of the searches since the last call. The searches of one decision run in
  // parallel.
  double take_seconds();

 private:
  const MetisOptions options_;
  double longest_ = 0, all_ = 0;
};

}  // namespace espalier::sim
