// Scores plans of one job without building them. The cost of a candidate depends only on its
// changes.
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

// The printed iteration time (infinity: nothing valid) and its N_b.
struct Score {
  double ms = kInfeasible;
  int choice = -1;  // index into micro_batch_counts()
  PipelineForm form = {};
  bool feasible() const { return choice >= 0; }
};

// Results of symmetric_seeds(), by GPUs and number of tilings. They are kept because a job's
// remainders recur with every change.
struct Tiled {
  double bound = kInfeasible;  // slower tilings were not searched for
  std::vector<Solution> best;
};
using KnownTilings = std::map<std::pair<std::vector<Piece>, int>, Tiled>;

// Not thread-safe, because it owns scratch space. The problem's parts must outlive it.
class Evaluator {
 public:
  // `book` is shared by jobs with the same coefficients, allowed N_b and rule of shares on the same
  // hardware. Null: the evaluator has a book of its own.
  explicit Evaluator(const Problem& problem, std::shared_ptr<StageBook> book = nullptr);

  const Problem& problem() const { return problem_; }
  // Allowed N_b, ascending: the divisors of G, or the one that the bounds fix.
  const std::vector<int>& micro_batch_counts() const { return counts_; }
  // Allowed schedules and chunks. 1F1B alone, of a job without own lists, is timed as printed; see form_figures.hpp.
  const std::vector<PipelineForm>& forms() const { return forms_; }
  // The least x that any allowed form may have (form_figures.hpp): T >= N_b * M + least_fill() * (W - M).
  double least_fill() const { return plain() ? 1 : 0; }
  // Allowed TP degrees, ascending.
  const std::vector<int>& tp_degrees() const { return tp_degrees_; }

  StageTable table(const StageShape& shape) const;
  void start(StageTable& table, const StageShape& shape) const;  // like table(), in place
  const StageAt& at(const StageTable& table, int choice) const {
    StageAt& at = table.at[choice];
    if (!at.ready) compute(table.shape, choice, at);
    return at;
  }

  // Finds the best N_b and balanced layers for a pipeline of these stages, first to last. May
  // report a score at or above `bound` as infeasible. `choices`: indices into micro_batch_counts()
  // to try, in this order; empty: all. `layers`, if given, receives the split of a feasible score.
  // The caller checks GPU count and type bounds (allowed()).
  Score score(std::span<const StageTable* const> stages, double bound = kInfeasible, std::span<const int> choices = {},
              std::span<int> layers = {});

  // Scores the given layers at N_b = micro_batch_counts()[choice]. Infinity: memory or shares do
  // not allow them.
  double score_layers(std::span<const StageTable* const> stages, int choice, std::span<const int> layers,
                      PipelineForm form = {}) const;
  // The same by the exact recurrence, or by the form's lists.
  double exact(std::span<const StageTable* const> stages, int choice, std::span<const int> layers,
               PipelineForm form = {}) const;

  // score_sketch and exact_sketch score `sketch` as it stands, in ms. balance_sketch chooses N_b,
  // layers and form anew and writes them into `sketch`.
  double score_sketch(const PlanSketch& sketch);
  double exact_sketch(const PlanSketch& sketch);
  // `only`: an index into micro_batch_counts(); -1: all.
  Score balance_sketch(PlanSketch& sketch, int only = -1);
  int choice_of(int micro_batches) const;  // -1: not allowed

  KnownTilings& known_tilings() { return known_tilings_; }

  // Checks GPU count, types, TP degrees and N_b.
  bool allowed(const PlanSketch& sketch) const;

 private:
  void compute(const StageShape& shape, int choice, StageAt& at) const;
  bool degrees_allowed(std::span<const StageTable* const> stages) const;
  bool plain() const { return forms_.size() == 1 && forms_.front().plain() && !problem_.job.own_lists; }
  double fill_of(std::span<const StageTable* const> stages, int choice, PipelineForm form) const;
  double assemble(std::span<const StageTable* const> stages, int choice, std::span<const int> layers, PipelineForm form,
                  std::span<StageTime> times) const;
  double score_choice(std::span<const StageTable* const> stages, int choice, PipelineForm form, double bound,
                      std::span<int> layers);
  std::vector<StageTable> tables_of(const PlanSketch& sketch) const;

  const Problem problem_;
  std::vector<int> counts_;
  std::vector<int> all_choices_;
  std::vector<int> tp_degrees_;
  std::vector<PipelineForm> forms_;
  KnownTilings known_tilings_;
  const std::shared_ptr<StageBook> book_;
  // Scratch space of kMaxStages entries each. On the stack it would be cleared for every candidate.
  std::vector<LayerBin> bins_;
  mutable std::vector<StageTime> times_;
  std::vector<int> split_;
};

// Cost of a micro-batch in one stage whose layers are undecided, for layer_balance.
LayerBin layer_bin(const JobCoefficients& job, const StageAt& at, bool first, bool last);

}  // namespace espalier
