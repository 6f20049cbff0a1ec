#include <doctest/doctest.h>

#include "tests/unit/torchrt_plans.hpp"
#include "tests/unit/torchrt_schedule_cases.hpp"
#include "torchrt/schedule/simulate.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

Schedule even_pipeline(int stages, int micro_batches, const std::string& name) {
  std::vector<std::pair<std::string, int>> gpus;
  for (int s = 0; s < stages; ++s) gpus.push_back({"a", s});
  ScheduleOptions options;
  options.name = name;
  return make_schedule(make_layout(pipeline_of(gpus, stages, micro_batches), stages), options);
}

// A forward takes 1 s, a whole backward 2 s, all else no time.
double textbook(int, const Op& op) {
  return op.kind == OpKind::forward || op.kind == OpKind::backward || op.kind == OpKind::weight_gradient ? 1 : 0;
}

}  // namespace

TEST_CASE("the bubble of an even GPipe is at most (stages - 1) / (micro-batches + stages - 1)") {
  for (int stages = 1; stages <= 6; ++stages)
    for (int micro_batches = 1; micro_batches <= 8; ++micro_batches) {
      const double bubble = simulate(even_pipeline(stages, micro_batches, "gpipe"), textbook).bubble();
      CHECK(bubble <= (stages - 1.0) / (micro_batches + stages - 1.0) + 1e-12);
      if (stages == 1) CHECK(bubble == 0);
    }
}

TEST_CASE("when a gradient leaves with the whole backward, the bubble is the textbook's") {
  // Weight gradients take no time, so nothing fills the gaps.
  const Durations whole = [](int, const Op& op) {
    return op.kind == OpKind::forward ? 1.0 : op.kind == OpKind::backward ? 2.0 : 0.0;
  };
  for (const char* name : {"1f1b", "gpipe"})
    for (int stages = 1; stages <= 6; ++stages)
      for (int micro_batches = 1; micro_batches <= 8; ++micro_batches) {
        const Simulation simulation = simulate(even_pipeline(stages, micro_batches, name), whole);
        CHECK(simulation.makespan == doctest::Approx(3.0 * (micro_batches + stages - 1)));
        CHECK(simulation.bubble() == doctest::Approx((stages - 1.0) / (micro_batches + stages - 1.0)));
      }
}

TEST_CASE("gradients that leave before the weights' work shorten the step") {
  const double apart = simulate(even_pipeline(4, 6, "1f1b"), textbook).makespan;
  CHECK(apart < 3.0 * (6 + 4 - 1));
  CHECK(apart >= 3.0 * 6);
}

TEST_CASE("a reduction overlaps the work on the units after it") {
  ScheduleOptions options;
  const Schedule schedule = make_schedule(make_layout(short_plan({{{1, "a", 0}, {1, "a", 1}}}, 2, 1, 2), 2), options);
  // Four units. Backward and weights take 1 s each, a reduction 2 s. Each reduction but the last
  // hides behind the next unit's work.
  const Durations durations = [](int, const Op& op) {
    if (op.kind == OpKind::backward || op.kind == OpKind::weight_gradient) return 1.0;
    return op.kind == OpKind::reduce ? 2.0 : 0.0;
  };
  CHECK(simulate(schedule, durations).makespan == doctest::Approx(4 * 2 + 2));
}

TEST_CASE("a slow message delays its receiver alone") {
  const Durations durations = [](int, const Op& op) {
    return op.kind == OpKind::forward ? 1.0 : op.kind == OpKind::send_activation ? 5.0 : 0.0;
  };
  const Simulation simulation = simulate(even_pipeline(2, 1, "1f1b"), durations);
  CHECK(simulation.makespan == doctest::Approx(7));
  CHECK(simulation.busy[0] == doctest::Approx(1));
}

TEST_CASE("a message travels while its receiver computes") {
  // The second micro-batch leaves at 2 s and takes 3 s, as the last stage goes back through the first from 6 to 9 s.
  const Durations durations = [](int rank, const Op& op) {
    if (op.kind == OpKind::send_activation) return 3.0;
    if (op.kind == OpKind::forward) return rank == 0 ? 1.0 : 2.0;
    return op.kind == OpKind::backward && rank == 1 ? 3.0 : 0.0;
  };
  const Simulation simulation = simulate(even_pipeline(2, 2, "1f1b"), durations);
  CHECK(simulation.makespan == doctest::Approx(4 + 2 * (2 + 3)));
}

TEST_CASE("the simulation of any plan ends, and no rank is busy longer than the step") {
  std::mt19937 random(17);
  for (int round = 0; round < 100; ++round) {
    const Schedule schedule = make_schedule(make_layout(any_plan(random, 6), 6), any_options(random));
    const Simulation simulation = simulate(schedule, textbook);
    for (const double busy : simulation.busy) CHECK(busy <= simulation.makespan + 1e-9);
    CHECK(simulation.bubble() >= 0);
    CHECK(simulation.bubble() < 1);
  }
}
