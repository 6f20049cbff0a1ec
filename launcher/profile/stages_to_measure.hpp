// The plans whose stages a profile job measures, one stage after the other, and what it has measured of the present
// plan. Pure.
#pragma once

#include <deque>
#include <vector>

#include "planner/core/json.hpp"

namespace espalier::launcher {

class StagesToMeasure {
 public:
  struct Stage {
    int stage = 0, replica = 0;
  };
  // `plans`: of espalierd's reply to stage_plans. Throws when it is malformed.
  void take(const Json& plans);

  bool empty() const { return plans_.empty(); }  // no plan is left
  // Of the present plan.
  const Json& plan() const { return plans_.front().plan; }
  bool all_measured() const { return measured_.size() == plans_.front().stages.size(); }
  const Stage& next() const { return plans_.front().stages[measured_.size()]; }
  void measured(const Json& profile) { measured_.push_back(profile); }  // the next stage
  const Json& profiles() const { return measured_; }
  void next_plan();

 private:
  struct OnePlan {
    Json plan;
    std::vector<Stage> stages;
  };
  std::deque<OnePlan> plans_;
  Json measured_ = Json::array();
};

}  // namespace espalier::launcher
