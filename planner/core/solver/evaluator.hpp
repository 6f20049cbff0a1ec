// Scores plans of one job without building them: a candidate costs what it changed.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/model/memory.hpp"
#include "planner/core/solver/layer_balance.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/solver/solution.hpp"
#include "planner/core/solver/stage_book.hpp"

namespace espalier {

inline constexpr double kInfeasible = std::numeric_limits<double>::infinity();

// What a score says: printed iteration time (infinity: nothing valid), and the N_b it is for.
struct Score {
  double ms = kInfeasible;
  int choice = -1;  // index into micro_batch_counts()
  bool feasible() const { return choice >= 0; }
};

// What symmetric_seeds() has found, by GPUs and number of tilings: a job's remainders come up again with every change.
struct Tiled {
  double bound = kInfeasible;  // slower ones were not looked for
  std::vector<Solution> best;
};
using KnownTilings = std::map<std::pair<std::vector<Piece>, int>, Tiled>;

// Not thread-safe: it owns scratch space. The problem's parts must outlive it.
class Evaluator {
 public:
  // `book`: of jobs with the same coefficients, allowed N_b and rule of shares on the same hardware; null: its own.
  explicit Evaluator(const Problem& problem, std::shared_ptr<StageBook> book = nullptr);

  const Problem& problem() const { return problem_; }
  // Allowed N_b, ascending: the divisors of G, or the one that the bounds fix.
  const std::vector<int>& micro_batch_counts() const { return counts_; }
  // Allowed TP degrees, ascending.
  const std::vector<int>& tp_degrees() const { return tp_degrees_; }

  StageTable table(const StageShape& shape) const;
  void start(StageTable& table, const StageShape& shape) const;  // the same in place
  const StageAt& at(const StageTable& table, int choice) const {
    StageAt& at = table.at[choice];
    if (!at.ready) compute(table.shape, choice, at);
    return at;
  }

  // The best N_b and balanced layers for a pipeline of these stages, first to last. Scores at or above `bound` may be
  // reported as infeasible. `choices`: the indices into micro_batch_counts() to try, in this order; empty: all.
  // `layers`, when given, gets the split of a feasible score. GPU count and type bounds are the caller's business
  // (allowed()).
  Score score(std::span<const StageTable* const> stages, double bound = kInfeasible, std::span<const int> choices = {},
              std::span<int> layers = {});

  // The given layers at N_b = micro_batch_counts()[choice]; infinity when memory or shares do not allow it.
  double score_layers(std::span<const StageTable* const> stages, int choice, std::span<const int> layers) const;
  // The exact recurrence of the same.
  double exact(std::span<const StageTable* const> stages, int choice, std::span<const int> layers) const;

  // Scores `sketch` as it stands, or with its N_b and layers chosen anew (written into it). ms.
  double score_sketch(const PlanSketch& sketch);
  double exact_sketch(const PlanSketch& sketch);
  Score balance_sketch(PlanSketch& sketch, int only = -1);  // `only`: an index into micro_batch_counts(), -1: all
  int choice_of(int micro_batches) const;                   // -1: not allowed

  KnownTilings& known_tilings() { return known_tilings_; }

  // GPU count, types, TP degrees, and the runtime's limits on DP degrees.
  bool allowed(const PlanSketch& sketch) const;

 private:
  void compute(const StageShape& shape, int choice, StageAt& at) const;
  bool degrees_allowed(std::span<const StageTable* const> stages) const;
  double assemble(std::span<const StageTable* const> stages, int choice, std::span<const int> layers,
                  std::span<StageTime> times) const;
  double score_choice(std::span<const StageTable* const> stages, int choice, double bound, std::span<int> layers);
  std::vector<StageTable> tables_of(const PlanSketch& sketch) const;

  const Problem problem_;
  std::vector<int> counts_;
  std::vector<int> all_choices_;
  std::vector<int> tp_degrees_;
  KnownTilings known_tilings_;
  const std::shared_ptr<StageBook> book_;
  // Scratch, kMaxStages each: on the stack it would be cleared for every candidate.
  std::vector<LayerBin> bins_;
  mutable std::vector<StageTime> times_;
  std::vector<int> split_;
};

// What a micro-batch costs in one stage, layers to be decided: for layer_balance.
LayerBin layer_bin(const JobCoefficients& job, const StageAt& at, bool first, bool last);

}  // namespace espalier
