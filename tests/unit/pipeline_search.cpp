// The search for pipeline schedules against the proven optimum and the known schedules.
#include "planner/core/pipeline/search.hpp"

#include <doctest/doctest.h>

#include "planner/core/pipeline/check.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/placement.hpp"
#include "planner/core/pipeline/simulate.hpp"
#include "tests/bench/planner/exact_schedule.hpp"
#include "tests/bench/planner/schedule_instances.hpp"
#include "tests/unit/pipeline_cases.hpp"

using namespace espalier;
using namespace espalier::pipeline;

namespace {

// What is found is sound, fits, and takes the time that was told.
void check_found(const SearchProblem& problem, const Found& found) {
  REQUIRE(found.found());
  REQUIRE(check(found.schedule) == std::vector<std::string>{});
  const Simulation result = simulate(found.schedule, problem.costs);
  CHECK(result.time == doctest::Approx(found.time));
  for (std::size_t rank = 0; rank < problem.memory.size(); ++rank)
    CHECK(result.ranks[rank].peak <= problem.memory[rank] + 1e-6);
  if (!found.best_generator.empty()) CHECK(found.time <= found.generator_time);
}

}  // namespace

TEST_CASE("the search comes within 1% of the proven optimum on average, within 5% at worst") {
  Chance chance(5);
  double sum = 0, least = 1;
  int proven = 0;
  for (int i = 0; i < 30; ++i) {
    const SearchProblem problem = bench::schedule_instance(chance);
    const Found found = search(problem, {1, 400'000});
    check_found(problem, found);
    const bench::ExactTime exact = bench::exact_time(problem, found.time, 50'000);
    if (!exact.proven) continue;
    ++proven;
    const double share = exact.time ? *exact.time / found.time : 1;
    sum += share;
    least = std::min(least, share);
  }
  CHECK(proven >= 20);
  CHECK(sum / proven >= 0.99);
  CHECK(least >= 0.95);
}

TEST_CASE("the search is never slower than a known schedule that fits, whatever the work it may do") {
  Chance chance(6);
  for (const std::int64_t work : {0, 20'000, 500'000})
    for (const Generator& one : generators()) {
      const Schedule schedule = generate(one.name, {4, 8, one.chunks_per_rank > 0 ? one.chunks_per_rank : 2});
      SearchProblem problem{4, 8, schedule.rank_of_chunk, uneven_costs(schedule.rank_of_chunk.size(), chance), {}};
      const Simulation known = simulate(schedule, problem.costs);
      for (const RankFigures& rank : known.ranks) problem.memory.push_back(rank.peak);
      const Found found = search(problem, {1, work});
      CAPTURE(one.name);
      check_found(problem, found);
      CHECK_FALSE(found.best_generator.empty());
      CHECK(found.time <= known.time * (1 + 1e-12));
    }
}

TEST_CASE("with equal times the search finds ZB-V's time in ZB-V's memory") {
  const Schedule schedule = generate("zb-v", {8, 16, 2});
  const SearchProblem problem{8, 16, schedule.rank_of_chunk, equal_costs(schedule), std::vector<double>(8, 8.0)};
  CHECK(search(problem, {1, 100'000}).time == doctest::Approx(51.5));
}

TEST_CASE("the same seed finds the same schedule") {
  Chance chance(7);
  const SearchProblem problem = bench::schedule_instance(chance);
  CHECK(search(problem, {3, 200'000}).schedule == search(problem, {3, 200'000}).schedule);
}

TEST_CASE("a schedule to start from is kept when nothing better is found") {
  const Schedule given = generate("zb-h1", {3, 6, 1});
  const SearchProblem problem{3, 6, given.rank_of_chunk, equal_costs(given), std::vector<double>(3, 3.0)};
  const Found found = search(problem, {1, 0}, {given});
  CHECK(found.time <= simulate(given, problem.costs).time);
}

TEST_CASE("nothing is found when one micro-batch has no room") {
  const SearchProblem problem{2, 2, {0, 1}, Costs(2), {1, 0.5}};
  CHECK_FALSE(search(problem, {1, 100'000}).found());
}
