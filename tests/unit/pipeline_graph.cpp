// The parts of the search for pipeline schedules: what they say agrees with the simulator and the checker.
#include "planner/core/pipeline/graph.hpp"

#include <doctest/doctest.h>

#include "planner/core/pipeline/check.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/list_scheduler.hpp"
#include "planner/core/pipeline/local_moves.hpp"
#include "planner/core/pipeline/simulate.hpp"
#include "planner/core/pipeline/time_bound.hpp"
#include "tests/bench/planner/schedule_instances.hpp"
#include "tests/unit/pipeline_cases.hpp"

using namespace espalier;
using namespace espalier::pipeline;

namespace {

SearchProblem problem_of(const Schedule& schedule, Chance& chance) {
  SearchProblem problem{
      static_cast<int>(schedule.actions.size()), schedule.micro_batches, schedule.rank_of_chunk, {}, {}};
  problem.costs = uneven_costs(schedule.rank_of_chunk.size(), chance);
  return problem;
}

}  // namespace

TEST_CASE("the graph's time, and the memory of an order, are those of the simulator") {
  Chance chance(1);
  for (const Generator& one : generators()) {
    const Schedule schedule = generate(one.name, {3, 6, one.chunks_per_rank > 0 ? one.chunks_per_rank : 2});
    const SearchProblem problem = problem_of(schedule, chance);
    const Order order = order_of(schedule);
    const Simulation result = simulate(schedule, problem.costs);
    Graph graph(problem);
    CHECK(*graph.time(order) == doctest::Approx(result.time));
    CHECK(schedule_of(order, problem) == schedule);
    for (std::size_t rank = 0; rank < order.size(); ++rank)
      CHECK(peak_of(order[rank], problem.costs) == doctest::Approx(result.ranks[rank].peak));
  }
}

TEST_CASE("a critical path has no slack: its actions and messages add up to the time") {
  Chance chance(2);
  for (const Generator& one : generators()) {
    const Schedule schedule = generate(one.name, {4, 7, one.chunks_per_rank > 0 ? one.chunks_per_rank : 2});
    SearchProblem problem = problem_of(schedule, chance);
    for (ChunkCosts& cost : problem.costs) cost.send_forward = cost.send_backward = 0;
    const Order order = order_of(schedule);
    Graph graph(problem);
    const double time = *graph.time(order);
    double sum = 0;
    for (const Place& place : graph.critical_path(order))
      sum += graph.seconds(order[static_cast<std::size_t>(place.rank)][static_cast<std::size_t>(place.at)]);
    CHECK(sum == doctest::Approx(time));
  }
}

TEST_CASE(
    "random moves keep a schedule complete and in order; the graph finds exactly the deadlocks that the checker "
    "finds") {
  Chance chance(3);
  int sound = 0, deadlocks = 0;
  for (int i = 0; i < 300; ++i) {
    const Generator& one = generators()[static_cast<std::size_t>(chance.below(static_cast<int>(generators().size())))];
    const Schedule schedule = generate(one.name, {3, 4, one.chunks_per_rank > 0 ? one.chunks_per_rank : 2});
    const SearchProblem problem = problem_of(schedule, chance);
    Graph graph(problem);
    Order order = order_of(schedule);
    for (int moves = 0; moves < 12; ++moves) {
      RankOrder& steps = order[static_cast<std::size_t>(chance.below(3))];
      const int at = chance.below(static_cast<int>(steps.size()));
      const Compute kind = steps[static_cast<std::size_t>(at)].kind;
      if (kind == Compute::backward && chance.below(2) == 0) split_backward(steps, at);
      else if (kind == Compute::backward_input && chance.below(4) == 0) join_backward(steps, at, chance.below(2) == 0);
      else {
        const Reach free = reach(steps, at);
        move_step(steps, at, free.first + chance.below(free.last - free.first + 1));
      }
    }
    const Schedule changed = schedule_of(order, problem);
    const std::vector<std::string> problems = check(changed);
    for (const std::string& text : problems) REQUIRE(text.find("deadlock") != std::string::npos);
    const auto time = graph.time(order);
    REQUIRE(time.has_value() == problems.empty());
    if (!time) {
      ++deadlocks;
      continue;
    }
    ++sound;
    REQUIRE(*time == doctest::Approx(simulate(changed, problem.costs).time));
    REQUIRE(*time >= time_bound(problem) * (1 - 1e-9));
  }
  CHECK(sound > 50);
  CHECK(deadlocks > 10);
}

TEST_CASE("list scheduling never deadlocks, and keeps to the memory, however tight") {
  Chance chance(4);
  for (int i = 0; i < 400; ++i) {
    const SearchProblem problem = bench::schedule_instance(chance);
    PriorityRule rule{4 * chance.unit(), 3 * chance.unit(), 4 * chance.unit() - 2,
                      3 * chance.unit(), chance.unit(),     chance.below(2) == 0};
    const auto order = list_schedule(problem, rule);
    REQUIRE(order.has_value());
    REQUIRE(check(schedule_of(*order, problem)) == std::vector<std::string>{});
    REQUIRE(fits(*order, problem));
  }
}

TEST_CASE("list scheduling finds nothing when one micro-batch has no room") {
  SearchProblem problem{2, 2, {0, 1}, Costs(2), {1, 0.9}};
  CHECK_FALSE(list_schedule(problem, {}).has_value());
}
