// On assumed coefficients a job grows only when the gain holds over their whole range.
#include <doctest/doctest.h>

#include "planner/core/model/assumed_range.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// A job on one GPU, with another idle one on its node. It computes 96 ms, and its batch is one
// micro-batch, so that a second stage brings nothing. A second replica leaves 48 ms, 32 of them
// backward, and adds 57 ms for the gradients' sum: a gain if they overlap, a loss if they do not.
PlanningInput one_gpu(bool overlap_assumed) {
  ElasticJob one = job(10, "n1", {0}, 2);
  one.accuracy = Accuracy::relaxed;
  one.parallel.micro_batches = 1;
  one.plan = uniform_plan(1, 1, 8, 4, 1, {{"n1", 0}});
  PlanningInput input = input_of({node("n1", 2)}, {one});
  let_jobs_reach(input);
  JobCoefficients known = model_sizes(one.model, {}, 1);
  known.tp_degrees = {1};
  known.gpu[0] = {1, 2, 0.01, 64, false, false, false, overlap_assumed};
  count_as_measured(known);
  known.gpu[0].assumed_overlap = overlap_assumed;
  known.param_bytes = 1e9;
  known.first.param_bytes = known.last.param_bytes = 0;
  known.last.compute_layers = 0;
  input.coefficients[10] = known;
  return input;
}

}  // namespace

TEST_CASE("a growth whose gain needs an overlap that nobody measured waits, and the reason names the overlap") {
  const auto measured = decide(one_gpu(false));
  REQUIRE(measured.size() == 1);
  CHECK(measured[0].kind == DecisionKind::grow);
  CHECK(measured[0].plan.stages[0].replicas.size() == 2);
  CHECK(measured[0].reason.find("assumed") == std::string::npos);

  const auto scheduler = make_suika_scheduler(bold());
  CHECK(scheduler->decide(one_gpu(true)).empty());
  REQUIRE(scheduler->weighed().size() == 1);
  CHECK(scheduler->weighed()[0].gpus == 1);
  CHECK(scheduler->weighed()[0].benefit > 0.2);
  const std::string& why = scheduler->weighed()[0].verdict;
  CHECK(why.find("assumed (overlap.") != std::string::npos);
  CHECK(why.find("computation") == std::string::npos);
}

TEST_CASE("the published search does not ask what is assumed") {
  SchedulerOptions options = bold();
  options.as_printed = true;
  CHECK(decide(one_gpu(true), options).size() == 1);
}

TEST_CASE("a growth that holds over the whole range goes ahead, and says so") {
  const auto decisions = decide(input_of({node("n1", 4), node("n2", 4)}, {job(10, "n1", {0, 1})}));
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].reason.find("the gain holds over the whole range of what is assumed (computation.h100, ") !=
        std::string::npos);
  CHECK(decisions[0].reason.find("memory") == std::string::npos);
}
