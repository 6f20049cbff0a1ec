// Coefficients from iteration times alone.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/iteration_profile.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

Plan two_stages(int micro_batches) {
  const int half = 16 / micro_batches / 2;
  return {16,
          micro_batches,
          {{7, 2, {replica(half, 0, 0, 2), replica(half, 1, 0, 2)}},
           {5, 2, {replica(half, 2, 0, 2), replica(half, 3, 0, 2)}}}};
}

// The model's times with these coefficients.
IterationTimes times_of(const Cluster& c, const JobCoefficients& coefficients, const PlacedPlan& plan) {
  auto stages = stage_times(c.hardware, coefficients, plan);
  IterationTimes times;
  times.iteration = exact_iteration(stages, plan.micro_batches);
  for (StageTime& stage : stages) stage.extra = 0;
  times.forward_backward = exact_iteration(stages, plan.micro_batches);
  for (const StagePrediction& stage : evaluate_plan(c.hardware, coefficients, plan).stages)
    times.optimizer = std::max(times.optimizer, stage.optim);
  return times;
}

}  // namespace

TEST_CASE("iteration, forward and backward, and optimizer give computation, optimizer and overlap back") {
  const Cluster c = cluster();
  for (const int micro_batches : {1, 2, 8})
    for (const double overlap : {1.0, 1.3, 4.0}) {
      JobCoefficients known = job();
      known.gpu[0].overlap = overlap;
      const PlacedPlan plan = place_plan(c.topology, two_stages(micro_batches));
      const JobCoefficients found = calibrate_iteration(c.hardware, job(), plan, times_of(c, known, plan));
      CHECK(found.gpu[0].comp == doctest::Approx(3).epsilon(1e-6));
      CHECK(found.gpu[0].optim == doctest::Approx(6).epsilon(1e-6));
      CHECK(found.gpu[0].overlap == doctest::Approx(overlap).epsilon(1e-5));
      CHECK_FALSE(found.gpu[0].assumed_comp);
      CHECK_FALSE(found.gpu[0].assumed_optim);
      CHECK_FALSE(found.gpu[0].assumed_overlap);
      CHECK(found.gpu[0].assumed_backward);
      // A third of the computation speed, and a third of the memory bandwidth (3000 and 1000).
      CHECK(found.gpu[1].comp == doctest::Approx(9).epsilon(1e-6));
      CHECK(found.gpu[1].optim == doctest::Approx(18).epsilon(1e-6));
      CHECK(found.gpu[1].assumed_comp);
      CHECK(found.gpu[1].assumed_optim);
    }
}

TEST_CASE("with the iteration alone the model takes as long as measured on every plan it is calibrated on") {
  const Cluster c = cluster(4, true);
  Plan single{16, 2, {{12, 1, {replica(8, 0, 0, 1)}}}};
  for (const Plan& plan : {two_stages(1), two_stages(4), single}) {
    const PlacedPlan placed = place_plan(c.topology, plan);
    const double measured = 2 * evaluate_plan(c.hardware, job(), placed).exact_ms;
    const JobCoefficients found = calibrate_iteration(c.hardware, job(), placed, {measured, 0, 0});
    CHECK(evaluate_plan(c.hardware, found, placed).exact_ms == doctest::Approx(measured).epsilon(1e-9));
    CHECK(found.gpu[0].assumed_comp);
    CHECK(found.gpu[0].assumed_overlap);
    // Adam's traffic: 2 * 3000 + 1000 bytes a layer at 3000 bytes/ms.
    CHECK(found.gpu[0].optim == doctest::Approx(7000.0 / 3000));
    CHECK(found.gpu[1].comp == doctest::Approx(3 * found.gpu[0].comp));
  }
}

TEST_CASE("what no part of the model explains is computation that the timer did not see") {
  const Cluster c = cluster();
  // A single replica synchronizes no gradients.
  const Plan plan{16, 1, {{12, 1, {replica(16, 0, 0, 1)}}}};
  const PlacedPlan placed = place_plan(c.topology, plan);
  // k_comp 3: 12 * 16 * 3 * 3 = 1728 ms; optimizer 72. The timer saw 1000 of the forward and backward passes.
  const JobCoefficients found = calibrate_iteration(c.hardware, job(), placed, {1800, 1000, 72});
  CHECK(found.gpu[0].comp == doctest::Approx(3));
  CHECK(found.gpu[0].optim == doctest::Approx(6));
  CHECK(found.gpu[0].overlap == 1);
  CHECK(found.gpu[0].assumed_overlap);
}

TEST_CASE("less than the gradients take means overlap, up to all of it") {
  const Cluster c = cluster();
  const PlacedPlan plan = place_plan(c.topology, two_stages(1));
  const IterationTimes known = times_of(c, job(), plan);
  const JobCoefficients found = calibrate_iteration(
      c.hardware, job(), plan, {known.forward_backward + known.optimizer, known.forward_backward, known.optimizer});
  CHECK(found.gpu[0].overlap == 64);
  CHECK_FALSE(found.gpu[0].assumed_overlap);
}

TEST_CASE("a step faster than its communication could be is all computation") {
  Cluster c = cluster();
  c.hardware.kinds[0].nic_bandwidth = c.hardware.kinds[0].tp_bandwidth = 1e-6;
  const PlacedPlan plan = place_plan(c.topology, two_stages(1));
  const JobCoefficients found = calibrate_iteration(c.hardware, job(), plan, {1000, 0, 0});
  // Two stages of 7 and 5 layers, 8 samples, TP 2: 3 k * 8 * 12 / 2 = 1000.
  CHECK(found.gpu[0].comp == doctest::Approx(1000.0 / 144));
  CHECK(found.activ_bytes == job().activ_bytes);
  CHECK(found.gpu[0].optim == 0);
}

TEST_CASE("before a profile arrives a shape and a step time are enough") {
  const Cluster c = cluster();
  const ModelShape shape{"gpt2", 12, 128, 4, 64, 256, 16, 4};
  const Plan plan = two_stages(4);
  Cluster roomy = cluster();
  for (GpuType& type : roomy.hardware.types) type.memory_bandwidth *= 1e6;
  for (NodeKind& kind : roomy.hardware.kinds) kind.tp_bandwidth = kind.dp_bandwidth = kind.nic_bandwidth = 1e9;
  const JobCoefficients found = assumed_coefficients(roomy.hardware, roomy.topology, shape, {}, plan, 250);
  CHECK(found.layers == 12);
  CHECK(found.param_bytes == 4 * layer_parameters(shape));
  CHECK(evaluate_plan(roomy.hardware, found, place_plan(roomy.topology, plan)).exact_ms == doctest::Approx(250));
  CHECK_THROWS_WITH_AS(assumed_coefficients(c.hardware, c.topology, shape, {}, plan, 0),
                       "iteration time: must be positive to calibrate a job from it", Error);
}
