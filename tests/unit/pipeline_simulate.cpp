// Time, bubble and memory of pipeline schedules, computed by hand.
#include "planner/core/pipeline/simulate.hpp"

#include <doctest/doctest.h>

#include "planner/core/pipeline/generate.hpp"
#include "tests/unit/pipeline_cases.hpp"

using namespace espalier::pipeline;

TEST_CASE("messages and uneven chunks delay what needs them") {
  const Schedule schedule = generate("1f1b", {2, 2, 1});  // 0: F0 F1 B0 B1; 1: F0 B0 F1 B1
  Costs costs(2);
  costs[0].forward = 1, costs[0].backward = 2, costs[0].send_forward = 0.5;
  costs[1].forward = 2, costs[1].backward = 3, costs[1].send_backward = 0.25;
  const Simulation result = simulate(schedule, costs);
  // Rank 1: F0 1.5-3.5, B0 3.5-6.5, F1 6.5-8.5, B1 8.5-11.5. Rank 0: B0 6.75-8.75, B1 11.75-13.75.
  CHECK(result.spans[1][0].start == doctest::Approx(1.5));
  CHECK(result.spans[0][2].start == doctest::Approx(6.75));
  CHECK(result.spans[0][3].start == doctest::Approx(11.75));
  CHECK(result.time == doctest::Approx(13.75));
  CHECK(result.ranks[0].busy == doctest::Approx(6));
  CHECK(result.bubble(0) == doctest::Approx(1 - 6 / 13.75));
  CHECK(result.bubble() == doctest::Approx(1 - 16 / 27.5));
  CHECK(result.span_bubble(1) == doctest::Approx(0));
  CHECK(result.span_bubble() == doctest::Approx(1 - 16 / 23.75));
}

TEST_CASE("activations count from F to the end of W, less what I frees") {
  Schedule schedule{2,
                    {0},
                    {{{Compute::forward, 0, 0},
                      {Compute::backward_input, 0, 0},
                      {Compute::forward, 0, 1},
                      {Compute::backward_weight, 0, 0},
                      {Compute::backward, 0, 1}}}};
  Costs costs(1);
  costs[0].activation = 4;
  CHECK(simulate(schedule, costs).peak() == doctest::Approx(8));
  costs[0].freed_by_input = 3;
  CHECK(simulate(schedule, costs).peak() == doctest::Approx(5));
}

TEST_CASE("chunks on the same rank send no messages") {
  const Schedule schedule = generate("memory-min", {1, 1, 3});
  Costs costs = equal_costs(schedule);
  for (ChunkCosts& cost : costs) cost.send_forward = cost.send_backward = 100;
  CHECK(simulate(schedule, costs).time == doctest::Approx(3));
}

TEST_CASE("a message takes its latency, and its bytes over the bandwidth") {
  CHECK(message_time(1e9, 1e-5, 1e10) == doctest::Approx(0.10001));
}
