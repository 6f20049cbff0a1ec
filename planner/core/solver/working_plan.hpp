// A plan under construction: its sketch with the tables of its stages at hand, so that a change costs what it touches.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/solver/evaluator.hpp"

namespace espalier {

struct WorkingPlan {
  PlanSketch sketch;
  std::vector<StageTable> tables;  // one per stage
  double ms = kInfeasible;         // printed iteration time of the sketch as it stands
  int choice = -1;                 // of N_b

  bool feasible() const { return choice >= 0; }
};

// Tables filled; N_b and layers chosen anew, or kept as they are (`as_is`; infeasible plans get ms = infinity).
WorkingPlan working_plan(Evaluator& evaluator, PlanSketch sketch, bool as_is = false);

// Stages of a candidate, first to last, borrowed from a base and from scratch tables.
class CandidateStages {
 public:
  void assign(const std::vector<StageTable>& tables) {
    count_ = tables.size();
    for (std::size_t s = 0; s < count_; ++s) stages_[s] = &tables[s];
  }
  void replace(std::size_t at, const StageTable& with) { stages_[at] = &with; }
  // False when the pipeline would get too deep.
  bool insert(std::size_t at, const StageTable& stage) {
    if (count_ == kMaxStages) return false;
    for (std::size_t s = count_++; s > at; --s) stages_[s] = stages_[s - 1];
    stages_[at] = &stage;
    return true;
  }
  void erase(std::size_t at) {
    for (std::size_t s = at + 1; s < count_; ++s) stages_[s - 1] = stages_[s];
    --count_;
  }
  void swap(std::size_t a, std::size_t b) { std::swap(stages_[a], stages_[b]); }
  std::span<const StageTable* const> view() const { return {stages_.data(), count_}; }

 private:
  std::array<const StageTable*, kMaxStages> stages_{};
  std::size_t count_ = 0;
};

}  // namespace espalier
