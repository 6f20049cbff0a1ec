// What the stages of one plan cost, for a comparison of pipeline schedules: the figures of `espalier schedule --job`.
// (FlexTrain §4.4: prediction by profile.)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// Of what a stage does with its layers on one micro-batch, on its slowest replica. Times in ms.
struct StageView {
  double forward = 0, backward_input = 0, backward_weight = 0;
  double send = 0;        // a message of activations to the next stage, or of gradients back
  double after = 0;       // once a step: exposed sums of gradients, and the optimizer
  double activation = 0;  // bytes that one micro-batch keeps on a GPU
  double room = 0;        // bytes of a GPU that activations may fill
};

// What the embedding, or the head, adds to the stage that has it. In another schedule another stage may have it: in a V
// the first stage has both. Times in ms, on the GPUs that have it now.
struct EdgeView {
  double forward = 0, backward_input = 0, backward_weight = 0;
  double bytes = 0;  // of a GPU, for parameters, their gradients, optimizer and activations
};

struct PipelineView {
  std::string schedule;  // the plan's
  int micro_batches = 0;
  bool weight_assumed = false;  // which share of the backward pass backward_weight is follows from the model's shape
  // The job recomputes activations. Then the backward pass of a layer is not taken apart: I does the work on its
  // weights, too, and frees its activations, and W does nothing.
  bool whole_backward = false;
  std::vector<StageView> stages;  // without the edges
  EdgeView first, last;
};

// `weight_share`: of the backward pass, where `job` does not know it because its schedule never took the pass apart.
// Throws Error when the plan does not fit the topology.
PipelineView pipeline_view(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                           const Plan& plan, double weight_share);

void to_json(nlohmann::json& json, const PipelineView& view);
// Throws Error when a figure is missing, negative or not finite, or there are fewer than two stages. Edges may be
// absent: then stages are with them.
void from_json(const nlohmann::json& json, PipelineView& view);

}  // namespace espalier
