// The Pareto dynamic programme at one N_b.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/gpu_states.hpp"
#include "planner/core/solver/rest_bound.hpp"

namespace espalier {

// The work of one search, shared by its runs.
class ParetoWork {
 public:
  ParetoWork(long most, const std::function<bool()>& stop) : most_(most), stop_(stop) {}
  void add(long labels) { done_ += labels; }
  bool ended();
  long done() const { return done_; }
  long left() const { return std::max(0L, most_ - done_); }

 private:
  const long most_;
  const std::function<bool()>& stop_;
  long done_ = 0, asked_ = 0;
  bool ended_ = false;
};

// The fastest complete plan so far, last stage first.
struct ParetoBest {
  double ms = kInfeasible;
  int choice = -1;
  PipelineForm form = {};
  std::vector<Take> taken;
  std::vector<int> layers;
  // Only plans below this time are worth finding.
  double limit() const { return ms * (1 - 1e-9); }
};

// The last `depth` stages of a plan.
struct ParetoLabel {
  double sum = 0, slowest = 0;  // sum and maximum of the stages' t
  // E: the time from the last backward pass of the first of these stages until all these stages
  // have ended.
  double tail = 0;
  // Lower bound of the iteration time of all plans with these last stages.
  double bound = 0;
  std::int32_t parent = -1, state = 0, shape = 0;
  // Next label with the same state and layers placed.
  std::int32_t older = -1;
  // layers: of this stage; placed: of all these stages.
  std::int16_t depth = 0, layers = 0, placed = 0;
  bool dominated = false;
};

// Storage that one run fills and the next run reuses.
struct ParetoScratch {
  std::vector<ParetoLabel> labels;
  std::vector<std::vector<std::int32_t>> levels;  // labels by layers placed
  // Newest label by state and layers placed; -1 between runs.
  std::vector<std::int32_t> heads;
};

class ParetoRun {
 public:
  // `dp`: DP degree of every stage; 0: any. All arguments must outlive the run.
  // `form`: other forms than 1F1B alone are timed as on eight stages, and have 1F1B's memory; the caller scores the
  // plan anew.
  ParetoRun(const Evaluator& evaluator, GpuStates& states, int choice, int dp, PipelineForm form);

  // Lower bound of the time of all plans at this N_b, in ms.
  double bound() const { return bound_; }
  // Call before run(). They improve bound() and give bounds that save labels; see RestBound.
  long count_pools(long most);
  long fill_tables(long most);

  enum class End { complete, narrowed, stopped };
  // Of all labels with equally many layers placed, extends only the `width` most promising ones.
  End run(std::size_t width, ParetoWork& work, ParetoBest& best, ParetoScratch& scratch);

 private:
  // A stage at this N_b.
  struct Stage {
    StageRates rates;
    Shares shares;
    double both = 0;
    bool known = false, allowed = false;
  };

  End extend(std::size_t width, ParetoWork& work, ParetoBest& best);
  const Stage& stage(int shape);
  int cap(int shape, int depth, bool first);
  double bound_of(const ParetoLabel& label, const RestNeed& need) const;
  bool dominates(const ParetoLabel& a, const ParetoLabel& b) const;
  std::size_t head_of(const ParetoLabel& label) const;
  void expand(int index, ParetoWork& work, ParetoBest& best);
  void finish(int index, int shape, const Take& take, ParetoBest& best);
  void place(int index, const Take& take, int most, double slack, ParetoBest& best);
  void insert(const ParetoLabel& label);

  const Problem& problem_;
  GpuStates& states_;
  const int choice_, dp_, layers_, micro_batches_, depth_classes_;
  const PipelineForm form_;
  // T = fill * W + further * M + X; as printed 1 and N_b - 1. Labels' sums are of fill * t.
  const double fill_, further_;
  RestBound rest_;
  double bound_ = 0;
  std::vector<Stage> stages_;       // by shape
  std::vector<std::int16_t> caps_;  // by shape, depth class, first or not; -1: unknown
  ParetoScratch* scratch_ = nullptr;
};

}  // namespace espalier
