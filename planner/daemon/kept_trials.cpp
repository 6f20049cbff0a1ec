#include "planner/daemon/kept_trials.hpp"

#include <exception>
#include <utility>

namespace espalier {

Json kept_trials(const PlanTrials& trials) {
  if (trials.measured.empty() && trials.begun.empty()) return nullptr;
  Json measured = Json::array(), begun = Json::array();
  for (const MeasuredPlan& one : trials.measured)
    measured.push_back({{"plan", one.plan}, {"step_seconds", one.step_seconds}});
  for (const PlanShape& one : trials.begun)
    begun.push_back({{"stages", one.stages}, {"tp", one.tp}, {"micro_batches", one.micro_batches}});
  Json kept = {{"gpus", trials.gpus},
               {"measured", std::move(measured)},
               {"begun", std::move(begun)},
               {"finished", trials.finished}};
  return kept.dump().size() <= kMostKeptTrials ? kept : Json();
}

PlanTrials trials_kept(const Json& kept) {
  PlanTrials trials;
  if (!kept.is_object()) return trials;
  try {
    trials.gpus = kept.at("gpus").get<std::vector<GpuId>>();
    for (const Json& one : kept.at("measured"))
      trials.measured.push_back({one.at("plan").get<Plan>(), one.at("step_seconds").get<double>()});
    for (const Json& one : kept.at("begun"))
      trials.begun.push_back(
          {one.at("stages").get<int>(), one.at("tp").get<int>(), one.at("micro_batches").get<int>()});
    trials.finished = kept.at("finished").get<bool>();
  } catch (const std::exception&) {
    return {};
  }
  return trials;
}

}  // namespace espalier
