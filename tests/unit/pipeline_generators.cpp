// The known pipeline schedules are sound, and take the time and memory that their papers tell.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/check.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/simulate.hpp"
#include "tests/unit/pipeline_cases.hpp"

using namespace espalier;
using namespace espalier::pipeline;

namespace {

Simulation on_equal_costs(const std::string& name, const Shape& shape) {
  const Schedule schedule = generate(name, shape);
  return simulate(schedule, equal_costs(schedule));
}

}  // namespace

TEST_CASE("every known schedule is sound for any number of ranks, micro-batches and chunks") {
  for (const Generator& one : generators())
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int micro_batches = 1; micro_batches <= 20; ++micro_batches)
        for (int chunks = 1; chunks <= 4; ++chunks) {
          if (one.chunks_per_rank > 0 && chunks != one.chunks_per_rank) continue;
          const Schedule schedule = generate(one.name, {ranks, micro_batches, chunks});
          CAPTURE(one.name);
          CAPTURE(ranks);
          CAPTURE(micro_batches);
          CAPTURE(chunks);
          REQUIRE(check(schedule) == std::vector<std::string>{});
          REQUIRE(schedule.rank_of_chunk.size() == static_cast<std::size_t>(ranks * chunks));
        }
}

TEST_CASE("1F1B and GPipe take (m + p - 1) passes; 1F1B keeps p micro-batches, GPipe all of them") {
  for (const int p : {1, 2, 4, 7})
    for (const int m : {p, 2 * p, 3 * p + 1}) {
      CHECK(on_equal_costs("1f1b", {p, m, 1}).time == doctest::Approx(3.0 * (m + p - 1)));
      CHECK(on_equal_costs("gpipe", {p, m, 1}).time == doctest::Approx(3.0 * (m + p - 1)));
      CHECK(on_equal_costs("1f1b", {p, m, 1}).peak() == doctest::Approx(p));
      CHECK(on_equal_costs("gpipe", {p, m, 1}).peak() == doctest::Approx(m));
    }
}

TEST_CASE("interleaving divides the bubble of 1F1B by the chunks of a rank") {
  for (const int v : {1, 2, 3, 4})
    CHECK(on_equal_costs("interleaved", {4, 12, v}).time == doctest::Approx(36 + 9.0 / v));
}

TEST_CASE("ZB-H1 has a third of 1F1B's bubble in its memory; ZB-H2 has none in a rank's span, in twice the memory") {
  for (const int p : {2, 4, 8}) {
    const Simulation first = on_equal_costs("zb-h1", {p, 3 * p, 1}), second = on_equal_costs("zb-h2", {p, 3 * p, 1});
    CHECK(first.time == doctest::Approx(9 * p + p - 1));
    CHECK(first.peak() == doctest::Approx(p));
    CHECK(second.span_bubble() == doctest::Approx(0));
    CHECK(second.peak() == doctest::Approx(2 * p - 1));
  }
}

TEST_CASE("ZB-V waits only for the first micro-batch to arrive, in 1F1B's memory") {
  for (const int p : {2, 4, 8}) {
    const Simulation result = on_equal_costs("zb-v", {p, 2 * p, 2});
    CHECK(result.time == doctest::Approx(6 * p + (p - 1) / 2.0));
    CHECK(result.span_bubble() == doctest::Approx(0));
    CHECK(result.peak() == doctest::Approx(p));
  }
  // The floor of the whole time's bubble, 8 ranks and 16 micro-batches.
  CHECK(on_equal_costs("zb-v", {8, 16, 2}).bubble() == doctest::Approx(7.0 / 103));
}

TEST_CASE("V-Half keeps at most half of 1F1B's memory from 4 ranks on and is faster than 1F1B, V-Min keeps no more") {
  for (int p = 4; p <= 16; ++p) {
    CAPTURE(p);
    const Simulation half = on_equal_costs("v-half", {p, 2 * p, 2}), least = on_equal_costs("v-min", {p, 2 * p, 2});
    CHECK(half.peak() <= (p + 1) / 2 + 1e-9);
    CHECK(least.peak() <= half.peak() + 1e-9);
    CHECK(half.time < on_equal_costs("1f1b", {p, 2 * p, 1}).time);
  }
  CHECK(on_equal_costs("v-half", {8, 16, 2}).peak() <= 4);
  CHECK(on_equal_costs("v-half", {8, 16, 2}).bubble() <= 0.28);
}

TEST_CASE("the memory-minimised schedule keeps one micro-batch") {
  for (const int v : {1, 2, 3}) CHECK(on_equal_costs("memory-min", {3, 7, v}).peak() == doctest::Approx(1));
}

TEST_CASE("a generator refuses a name that does not exist") {
  CHECK_THROWS_WITH_AS(
      generate("zb-x", {2, 2, 1}),
      "schedule \"zb-x\": there is none of this name; use one of 1f1b, gpipe, interleaved, zb-h1, zb-h2, zb-v, "
      "v-half, v-min, memory-min",
      Error);
}
TEST_CASE("a generator refuses a wrong number of chunks") {
  CHECK_THROWS_WITH_AS(generate("zb-v", {2, 2, 3}), "schedule zb-v: has 2 chunks on each rank, not 3", Error);
}
TEST_CASE("a generator refuses no ranks") { CHECK_THROWS_AS(generate("1f1b", {0, 2, 1}), Error); }
TEST_CASE("a generator refuses no micro-batches") { CHECK_THROWS_AS(generate("1f1b", {2, 0, 1}), Error); }
