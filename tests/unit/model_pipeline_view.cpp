// What the stages of a plan cost, for `espalier schedule --job`: the figures of the model, and their JSON.
#include <doctest/doctest.h>

#include <numeric>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/pipeline_view.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

Plan even() { return {16, 4, {{7, 1, {replica(4, 0, 0, 1)}}, {5, 1, {replica(4, 0, 1, 1)}}}}; }

JobCoefficients edged() {
  JobCoefficients made = job();
  made.first.compute_layers = 0.25;
  made.first.param_optim_bytes = 1e6;
  made.last.compute_layers = 0.5;
  made.last.param_optim_bytes = 2e6;
  return made;
}

PipelineView view() {
  const Cluster plain = cluster();
  return pipeline_view(plain.hardware, plain.topology, edged(), even(), 0.4);
}

std::string refusal(Json json) {
  try {
    (void)json.get<PipelineView>();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a stage's figures are the prediction's, and its backward pass is taken apart") {
  const Cluster plain = cluster();
  JobCoefficients in_parts = edged();
  REQUIRE(in_parts.deferred == 0);
  in_parts.deferred = 0.4;
  const Prediction prediction = evaluate_plan(plain.hardware, plain.topology, in_parts, even());
  const PipelineView assumed = view();
  const PipelineView known = pipeline_view(plain.hardware, plain.topology, in_parts, even(), 0.1);
  CHECK(assumed.weight_assumed);
  CHECK_FALSE(known.weight_assumed);
  CHECK(assumed.schedule == "1f1b");
  CHECK(assumed.micro_batches == even().micro_batches);
  REQUIRE(assumed.stages.size() == 2);
  for (std::size_t s = 0; s < 2; ++s) {
    const StageView& stage = assumed.stages[s];
    const StagePrediction& one = prediction.stages[s];
    const EdgeView& edge = s == 0 ? assumed.first : assumed.last;
    CHECK(stage.forward + edge.forward == doctest::Approx(one.time.fwd));
    CHECK(stage.backward_input + stage.backward_weight + edge.backward_input + edge.backward_weight ==
          doctest::Approx(one.time.bwd));
    CHECK(stage.backward_weight + edge.backward_weight == doctest::Approx(0.4 * one.comp_bwd));
    CHECK(edge.bytes == doctest::Approx(one.memory.edge));
    CHECK(stage.backward_weight == doctest::Approx(known.stages[s].backward_weight));
    CHECK(stage.after == doctest::Approx(one.time.extra));
    CHECK(stage.send == one.time.send);
    // 1F1B holds as many micro-batches as there are stages from here to the end.
    CHECK(stage.activation * static_cast<double>(2 - s) == doctest::Approx(one.memory.activations));
    CHECK(stage.room - edge.bytes <= one.capacity - one.memory.param_optim);
    CHECK(stage.room > 0);
  }
}

TEST_CASE("in a plan of a V the first stage gives both edges away") {
  const Cluster plain = cluster();
  const PipelineView flat = view();
  Plan v = with_form(even(), pipeline_form("zb-v", 2));
  REQUIRE(form_of(v).v_shaped());
  const PipelineView folded = pipeline_view(plain.hardware, plain.topology, edged(), v, 0.4);
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(folded.stages[s].forward == doctest::Approx(flat.stages[s].forward));
    CHECK(folded.stages[s].backward_input == doctest::Approx(flat.stages[s].backward_input));
  }
  CHECK(folded.last.forward == doctest::Approx(flat.last.forward));
  CHECK(folded.last.forward > 0);
}

TEST_CASE("with recomputation the backward pass stays whole") {
  const Cluster plain = cluster();
  JobCoefficients recomputes = edged();
  recomputes.recompute = true;
  recomputes.deferred = 0.3;
  const PipelineView whole = pipeline_view(plain.hardware, plain.topology, recomputes, even(), 0.4);
  CHECK(whole.whole_backward);
  CHECK_FALSE(whole.weight_assumed);
  for (const StageView& stage : whole.stages) CHECK(stage.backward_weight == 0);
  CHECK(whole.last.backward_weight == 0);
  CHECK(Json(whole).get<PipelineView>().whole_backward);
}

TEST_CASE("a pipeline's figures go through JSON, and each wrong one is refused by its name") {
  const PipelineView before = view();
  const PipelineView after = Json(before).get<PipelineView>();
  CHECK(Json(before) == Json(after));
  Json wrong = before;
  wrong["micro_batches"] = 0;
  CHECK(refusal(wrong) == "pipeline.micro_batches: must be between 1 and 4096");
  wrong = before;
  wrong["stages"].erase(1);
  CHECK(refusal(wrong) == "pipeline.stages: must be a list of 2 to 1024 stages");
  wrong = before;
  wrong["stages"][1]["forward_ms"] = -1;
  CHECK(refusal(wrong) == "pipeline.stages.forward_ms: must be finite and not negative");
  wrong = before;
  wrong["stages"][1].erase("room_bytes");
  CHECK(refusal(wrong).find("room_bytes") != std::string::npos);
  wrong = before;
  wrong["last"]["bytes"] = -1;
  CHECK(refusal(wrong) == "pipeline.last.bytes: must be finite and not negative");
  Json older = before;
  older.erase("first");
  older.erase("last");
  older.erase("whole_backward");
  CHECK(older.get<PipelineView>().last.forward == 0);
  CHECK(refusal(Json::array()) == "pipeline: must be a JSON object");
}
