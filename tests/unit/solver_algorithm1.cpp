#include <doctest/doctest.h>

#include "planner/core/solver/algorithm1.hpp"
#include "planner/core/solver/best_plan.hpp"
#include "planner/core/solver/local_search.hpp"
#include "planner/core/solver/seeds.hpp"
#include "planner/core/solver/shrink.hpp"
#include "tests/unit/solver_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Here the caller offers only GPUs that may be taken, so bounds on count and types are lifted.
TinyCase open_case(std::mt19937& random, int most_gpus = 6) {
  TinyCase tiny = tiny_case(random, most_gpus);
  tiny.bounds.min_gpus = 1;
  tiny.bounds.types.clear();
  return tiny;
}

// A feasible plan on the first available GPUs. The others are units of one GPU.
struct Growing {
  WorkingPlan present;
  std::vector<Piece> held, units;
};

std::optional<Growing> growing(Evaluator& evaluator, const TinyCase& tiny) {
  Growing result;
  int held = 0;
  for (const Piece& piece : tiny.available)
    for (int gpu = 0; gpu < piece.gpus; ++gpu) {
      const Piece one{piece.node, piece.type, 1};
      if (held++ < count_gpus(tiny.available) / 2) result.held = merge_pieces(result.held, std::span(&one, 1));
      else result.units.push_back(one);
    }
  const auto seeds = symmetric_seeds(evaluator, result.held, 1);
  if (seeds.empty()) return std::nullopt;
  result.present = seeds.front();
  return result;
}

}  // namespace

TEST_SUITE("solver") {
  TEST_CASE("a plan fits on GPUs that have each of its pieces, all stages' together") {
    const PlanSketch plan{4, {{1, 4, {{0, 0, 2}, {2, 0, 1}}}, {2, 4, {{0, 0, 2}}}}};
    CHECK(fits(plan, std::vector<Piece>{{0, 0, 4}, {2, 0, 1}}));
    CHECK(fits(plan, std::vector<Piece>{{0, 0, 8}, {1, 0, 8}, {2, 0, 8}}));
    CHECK_FALSE(fits(plan, std::vector<Piece>{{0, 0, 3}, {2, 0, 8}}));
    CHECK_FALSE(fits(plan, std::vector<Piece>{{0, 0, 8}, {2, 1, 1}}));
    CHECK_FALSE(fits(plan, std::vector<Piece>{{0, 0, 8}}));
  }

  TEST_CASE("every prefix plan uses exactly its GPUs, is allowed, and takes as long as the model says") {
    std::mt19937 random(5);
    int expanded = 0;
    for (int round = 0; round < 400; ++round) {
      const TinyCase tiny = open_case(random);
      Evaluator evaluator(tiny.problem());
      const auto start = growing(evaluator, tiny);
      if (!start) continue;
      for (const bool printed : {false, true}) {
        const auto options = printed ? ExpandOptions::as_printed() : ExpandOptions{};
        const auto prefixes = expand_prefixes(evaluator, start->present, start->units, options);
        for (std::size_t i = 1; i < prefixes.size(); ++i) {
          if (!prefixes[i].plan.feasible()) continue;
          ++expanded;
          const PlanSketch& sketch = prefixes[i].plan.sketch;
          CHECK(fault(tiny.problem(), tiny.available, sketch) == "");
          CHECK(sketch.gpus() == start->present.sketch.gpus() + static_cast<int>(i));
          CHECK(prefixes[i].gpus == static_cast<int>(i));
          CHECK(prefixes[i].plan.ms == doctest::Approx(plain_time(tiny.problem(), sketch)));
          if (printed) CHECK(sketch.micro_batches == start->present.sketch.micro_batches);
        }
      }
    }
    CHECK(expanded > 300);
  }

  TEST_CASE("entries that are known are taken over, and the rest is found as if nothing were") {
    std::mt19937 random(6);
    for (int round = 0; round < 200; ++round) {
      const TinyCase tiny = open_case(random, 8);
      Evaluator evaluator(tiny.problem());
      const auto start = growing(evaluator, tiny);
      if (!start) continue;
      const auto whole = expand_prefixes(evaluator, start->present, start->units, {});
      std::vector<PrefixPlan> known(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>((whole.size() + 1) / 2));
      const auto again = expand_prefixes(evaluator, start->present, start->units, {}, std::move(known));
      REQUIRE(again.size() == whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) CHECK(again[i].plan.sketch == whole[i].plan.sketch);
    }
  }

  TEST_CASE("a wider window never makes the last prefix worse by more than it can help") {
    // The plan uses TP 2, and two more GPUs are offered. One of them alone does not fit, both
    // together do.
    Hardware hardware;
    hardware.types.push_back({"gpu", 1, 1e15, 0});
    hardware.kinds.emplace_back();
    Topology topology;
    topology.add_node("n1", 0, std::vector<std::int16_t>(4, 0), {});
    JobCoefficients job;
    job.layers = 4;
    job.global_batch = 4;
    job.tp_degrees = {2};
    job.gpu.push_back({1, 2, 0, 1, false, false, false, false});
    const PlanBounds bounds;
    Evaluator evaluator(Problem{hardware, topology, job, bounds});
    const WorkingPlan present = working_plan(evaluator, {1, {{2, 4, {{0, 0, 2}}}}});
    REQUIRE(present.feasible());
    const std::vector<Piece> units{{0, 0, 1}, {0, 0, 1}};
    ExpandOptions narrow;
    narrow.window = 1;
    CHECK_FALSE(expand_prefixes(evaluator, present, units, narrow).at(2).plan.feasible());
    const auto wide = expand_prefixes(evaluator, present, units, {});
    CHECK_FALSE(wide.at(1).plan.feasible());
    CHECK(wide.at(2).plan.feasible());
    CHECK(wide.at(2).plan.ms < present.ms);
  }

  TEST_CASE("the job's maximum ends the prefixes") {
    std::mt19937 random(7);
    for (int round = 0; round < 100; ++round) {
      TinyCase tiny = open_case(random);
      Evaluator free(tiny.problem());
      const auto start = growing(free, tiny);
      if (!start) continue;
      tiny.bounds.max_gpus = start->present.sketch.gpus() + 1;
      Evaluator evaluator(tiny.problem());
      CHECK(expand_prefixes(evaluator, start->present, start->units, {}).size() <= 2);
    }
  }

  TEST_CASE("the planner's own search is allowed, uses what is available, and is never worse than its start") {
    std::mt19937 random(8);
    int found_count = 0, optimal = 0;
    for (int round = 0; round < 300; ++round) {
      const TinyCase tiny = tiny_case(random);
      Evaluator evaluator(tiny.problem());
      const auto start = growing(evaluator, tiny);
      std::vector<PlanSketch> starts;
      if (start) starts.push_back(start->present.sketch);
      const auto found = best_plan(evaluator, tiny.available, starts, {});
      const double best = best_of_all(tiny.problem(), tiny.available);
      if (!found) continue;
      ++found_count;
      CHECK(fault(tiny.problem(), tiny.available, found->sketch) == "");
      CHECK(found->ms == doctest::Approx(plain_time(tiny.problem(), found->sketch)));
      CHECK(found->ms >= best * (1 - 1e-9));
      if (start && evaluator.allowed(start->present.sketch)) CHECK(found->ms <= start->present.ms * (1 + 1e-12));
      optimal += found->ms <= best * (1 + 1e-9);
      const auto exact = best_plan(evaluator, tiny.available, starts, {6, 200, 1'000'000});
      REQUIRE(exact);
      CHECK(exact->ms == doctest::Approx(best));
    }
    CHECK(found_count > 150);
    CHECK(optimal > found_count * 3 / 4);
  }

  TEST_CASE("local search never returns a slower plan") {
    std::mt19937 random(9);
    for (int round = 0; round < 200; ++round) {
      const TinyCase tiny = open_case(random);
      Evaluator evaluator(tiny.problem());
      for (const WorkingPlan& seed : symmetric_seeds(evaluator, tiny.available, 8)) {
        const WorkingPlan searched = local_search(evaluator, seed, tiny.available, 50);
        CHECK(searched.ms <= seed.ms);
        CHECK(searched.ms == doctest::Approx(plain_time(tiny.problem(), searched.sketch)));
      }
    }
  }

  TEST_CASE("what remains of a plan when GPUs go is a plan on the GPUs that remain") {
    std::mt19937 random(10);
    int shrunk = 0;
    for (int round = 0; round < 300; ++round) {
      const TinyCase tiny = open_case(random);
      Evaluator evaluator(tiny.problem());
      const auto seeds = symmetric_seeds(evaluator, tiny.available, 1);
      if (seeds.empty()) continue;
      std::vector<Piece> kept = tiny.available;
      kept.back().gpus = static_cast<std::int16_t>(kept.back().gpus - 1);
      if (kept.back().gpus == 0) kept.pop_back();
      const auto plan = shrink_plan(evaluator, seeds.front().sketch, kept, {});
      if (!plan) continue;
      ++shrunk;
      CHECK(fault(tiny.problem(), kept, plan->sketch) == "");
    }
    CHECK(shrunk > 100);
  }
}
