#include "launcher/job/plan_in_place.hpp"

#include <spdlog/spdlog.h>

#include "planner/core/json.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {

bool PlanInPlace::possible() const {
  const World* const current = generations_.current();
  return current != nullptr && current->workers().all_replan_in_place() &&
         keeps_places(generations_.plan(), under_way_->decision.plan);
}

void PlanInPlace::ask() {
  under_way_->at["asked"] = wire::steady_now();
  under_way_->in_place_of = generations_.plan();
  generations_.current()->request_switch(under_way_->decision.plan, generations_.number(), {},
                                         under_way_->lists ? under_way_->lists->csv : "");
}

void PlanInPlace::go_on() {
  under_way_->at["boundary"] = wire::steady_now();
  under_way_->boundary = generations_.current()->boundary();
  generations_.current()->send_all(wire::Resume{under_way_->decision.plan});
  under_way_->at["commit"] = wire::steady_now();
  generations_.set_plan(under_way_->decision.plan);
  steps_.begin_anew();
  spdlog::info("espalier: launch: {} committed at step {}: generation {} goes on with {}{}",
               to_string(under_way_->decision.kind), under_way_->boundary, generations_.number(),
               describe(generations_.plan()), under_way_->lists ? ", searched lists" : "");
  pause_.begin(*under_way_);
}

bool PlanInPlace::take_back(const std::string& why) {
  const auto& taken = pause_.awaiting_first_step();
  if (!taken || !taken->in_place_of) return false;
  generations_.set_plan(*taken->in_place_of);
  pause_.abort(why);
  return true;
}

}  // namespace espalier::launcher
