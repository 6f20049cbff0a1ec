#include "planner/core/model/pipeline_view.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"
#include "planner/core/json.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/pipeline_form.hpp"

namespace espalier {
namespace {

constexpr std::pair<const char*, double StageView::*> kFigures[] = {{"forward_ms", &StageView::forward},
                                                                    {"backward_input_ms", &StageView::backward_input},
                                                                    {"backward_weight_ms", &StageView::backward_weight},
                                                                    {"send_ms", &StageView::send},
                                                                    {"after_ms", &StageView::after},
                                                                    {"activation_bytes", &StageView::activation},
                                                                    {"room_bytes", &StageView::room}};
constexpr int kMostMicroBatches = 4096;
constexpr std::size_t kMostStages = 1024;

}  // namespace

PipelineView pipeline_view(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                           const Plan& plan, double weight_share) {
  PipelineView view{form_of(plan).schedule(), plan.micro_batches, false, {}};
  JobCoefficients in_parts = job;
  if (in_parts.deferred == 0) {
    in_parts.deferred = weight_share;
    view.weight_assumed = true;
  }
  const PlacedPlan placed = place_plan(topology, plan);
  const Prediction prediction = evaluate_plan(hardware, in_parts, placed);
  for (std::size_t s = 0; s < prediction.stages.size(); ++s) {
    const StagePrediction& stage = prediction.stages[s];
    const StageTime& time = stage.time;
    const double held = held_at(in_parts, placed.position(static_cast<int>(s), in_parts.recompute));
    const double rest = stage.memory.param_optim + stage.memory.gradients + stage.memory.edge;
    view.stages.push_back({time.fwd, time.bwd - time.late, time.late, time.send, time.extra,
                           held > 0 ? stage.memory.activations / held : 0, std::max(0.0, stage.capacity - rest)});
  }
  return view;
}

void to_json(Json& json, const PipelineView& view) {
  json = {{"schedule", view.schedule},
          {"micro_batches", view.micro_batches},
          {"weight_assumed", view.weight_assumed},
          {"stages", Json::array()}};
  for (const StageView& stage : view.stages) {
    Json one = Json::object();
    for (const auto& [name, figure] : kFigures) one[name] = stage.*figure;
    json["stages"].push_back(std::move(one));
  }
}

void from_json(const Json& json, PipelineView& view) {
  const Fields fields(json, "pipeline");
  fields.get("schedule", view.schedule);
  fields.get("micro_batches", view.micro_batches);
  fields.get("weight_assumed", view.weight_assumed);
  if (view.micro_batches < 1 || view.micro_batches > kMostMicroBatches)
    throw Error("pipeline.micro_batches: must be between 1 and " + std::to_string(kMostMicroBatches));
  const Json stages = json.value("stages", Json());
  if (!stages.is_array() || stages.size() < 2 || stages.size() > kMostStages)
    throw Error("pipeline.stages: must be a list of 2 to " + std::to_string(kMostStages) + " stages");
  view.stages.clear();
  for (const Json& one : stages) {
    const Fields of_stage(one, "pipeline.stages");
    StageView& stage = view.stages.emplace_back();
    for (const auto& [name, figure] : kFigures) {
      of_stage.get(name, stage.*figure);
      if (!(stage.*figure >= 0 && stage.*figure <= 1e18))
        throw Error(std::string("pipeline.stages.") + name + ": must be finite and not negative");
    }
  }
}

}  // namespace espalier
