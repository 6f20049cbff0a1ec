#include "launcher/profile/stages_to_measure.hpp"

#include <utility>

namespace espalier::launcher {

void StagesToMeasure::take(const Json& plans) {
  for (const Json& one : plans) {
    OnePlan plan{one.at("plan"), {}};
    for (const Json& stage : one.at("stages"))
      plan.stages.push_back({stage.at("stage").get<int>(), stage.at("replica").get<int>()});
    plans_.push_back(std::move(plan));
  }
}

void StagesToMeasure::next_plan() {
  plans_.pop_front();
  measured_ = Json::array();
}

}  // namespace espalier::launcher
