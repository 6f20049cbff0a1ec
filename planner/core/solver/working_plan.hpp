// A plan under construction: its sketch and its stages' tables. A change costs only the stages that
// it touches.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/solver/evaluator.hpp"

namespace espalier {

struct WorkingPlan {
  PlanSketch sketch;
  std::vector<StageTable> tables;  // one per stage
  double ms = kInfeasible;         // printed iteration time of the sketch as it stands
  int choice = -1;                 // index of N_b

  bool feasible() const { return choice >= 0; }
};

// Fills the tables. Chooses N_b and layers anew, or keeps them (`as_is`). An infeasible plan has ms
// = infinity.
WorkingPlan working_plan(Evaluator& evaluator, PlanSketch sketch, bool as_is = false);

// Stages of a candidate, first to last. The base's tables and the scratch tables own them.
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
