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
constexpr std::pair<const char*, double EdgeView::*> kOfEdge[] = {{"forward_ms", &EdgeView::forward},
                                                                  {"backward_input_ms", &EdgeView::backward_input},
                                                                  {"backward_weight_ms", &EdgeView::backward_weight},
                                                                  {"bytes", &EdgeView::bytes}};
constexpr int kMostMicroBatches = 4096;
constexpr std::size_t kMostStages = 1024;

EdgeView edge_on(const Hardware& hardware, const JobCoefficients& job, const PlacedStage& stage,
                 const EdgeCoefficients& edge, const StagePosition& alone) {
  const StageRates rates = stage_rates(hardware, job, stage.shape, stage.shares);
  const double backward = edge.compute_layers * rates.comp_bwd, weights = job.deferred * backward;
  const int share = *std::max_element(stage.shares.most.begin(), stage.shares.most.end());
  const double bytes = peak_memory(job, stage.layers, share, stage.shape.tp, stage.shape.replicas, alone).edge;
  return {edge.compute_layers * rates.comp_fwd, backward - weights, weights, bytes};
}

void take_off(StageView& stage, const EdgeView& edge) {
  stage.forward = std::max(0.0, stage.forward - edge.forward);
  stage.backward_input = std::max(0.0, stage.backward_input - edge.backward_input);
  stage.backward_weight = std::max(0.0, stage.backward_weight - edge.backward_weight);
  stage.room += edge.bytes;
}

template <class View, std::size_t count>
Json json_of(const View& view, const std::pair<const char*, double View::*> (&figures)[count]) {
  Json json = Json::object();
  for (const auto& [name, figure] : figures) json[name] = view.*figure;
  return json;
}

template <class View, std::size_t count>
View view_of(const Json& json, const std::string& where,
             const std::pair<const char*, double View::*> (&figures)[count]) {
  View view;
  const Fields fields(json, where);
  for (const auto& [name, figure] : figures) {
    fields.get(name, view.*figure);
    if (!(view.*figure >= 0 && view.*figure <= 1e18))
      throw Error(where + "." + name + ": must be finite and not negative");
  }
  return view;
}

}  // namespace

PipelineView pipeline_view(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                           const Plan& plan, double weight_share) {
  PipelineView view{form_of(plan).schedule(), plan.micro_batches, false, false, {}, {}, {}};
  JobCoefficients in_parts = job;
  if (job.recompute) {
    in_parts.deferred = 0;
    view.whole_backward = true;
  } else if (in_parts.deferred == 0) {
    in_parts.deferred = weight_share;
    view.weight_assumed = true;
  }
  const PlacedPlan placed = place_plan(topology, plan);
  const Prediction prediction = evaluate_plan(hardware, in_parts, placed);
  for (std::size_t s = 0; s < prediction.stages.size(); ++s) {
    const StagePrediction& stage = prediction.stages[s];
    const StageTime& time = stage.time;
    const double held = held_at(in_parts, placed.position(static_cast<int>(s), in_parts));
    const double rest = stage.memory.param_optim + stage.memory.gradients + stage.memory.edge;
    view.stages.push_back({time.fwd, time.bwd - time.late, time.late, time.send, time.extra,
                           held > 0 ? stage.memory.activations / held : 0, std::max(0.0, stage.capacity - rest)});
  }
  const auto last = static_cast<std::size_t>(placed.form.last_stage(static_cast<int>(placed.stages.size())));
  view.first = edge_on(hardware, in_parts, placed.stages.front(), in_parts.first, {0, 2, 1});
  view.last = edge_on(hardware, in_parts, placed.stages[last], in_parts.last, {1, 2, 1});
  take_off(view.stages.front(), view.first);
  take_off(view.stages[last], view.last);
  return view;
}

void to_json(Json& json, const PipelineView& view) {
  json = {{"schedule", view.schedule},
          {"micro_batches", view.micro_batches},
          {"weight_assumed", view.weight_assumed},
          {"whole_backward", view.whole_backward},
          {"stages", Json::array()},
          {"first", json_of(view.first, kOfEdge)},
          {"last", json_of(view.last, kOfEdge)}};
  for (const StageView& stage : view.stages) json["stages"].push_back(json_of(stage, kFigures));
}

void from_json(const Json& json, PipelineView& view) {
  const Fields fields(json, "pipeline");
  fields.get("schedule", view.schedule);
  fields.get("micro_batches", view.micro_batches);
  fields.get("weight_assumed", view.weight_assumed);
  view.whole_backward = false;
  if (json.contains("whole_backward")) fields.get("whole_backward", view.whole_backward);
  if (view.micro_batches < 1 || view.micro_batches > kMostMicroBatches)
    throw Error("pipeline.micro_batches: must be between 1 and " + std::to_string(kMostMicroBatches));
  const Json stages = json.value("stages", Json());
  if (!stages.is_array() || stages.size() < 2 || stages.size() > kMostStages)
    throw Error("pipeline.stages: must be a list of 2 to " + std::to_string(kMostStages) + " stages");
  view.stages.clear();
  for (const Json& one : stages) view.stages.push_back(view_of(one, "pipeline.stages", kFigures));
  if (json.contains("first")) view.first = view_of(json["first"], "pipeline.first", kOfEdge);
  if (json.contains("last")) view.last = view_of(json["last"], "pipeline.last", kOfEdge);
}

}  // namespace espalier
