// What the searches leave out for speed: far prefixes and tilings that cannot win. And what equal
// jobs share.
#include <doctest/doctest.h>

#include "planner/core/schedule/stage_books.hpp"
#include "planner/core/solver/algorithm1.hpp"
#include "planner/core/solver/seeds.hpp"
#include "planner/core/solver/thinning.hpp"
#include "tests/unit/solver_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

TinyCase open_case(std::mt19937& random, int most_gpus) {
  TinyCase tiny = tiny_case(random, most_gpus);
  tiny.bounds.min_gpus = 1;
  tiny.bounds.types.clear();
  return tiny;
}

std::vector<Piece> ones(std::span<const Piece> pieces) {
  std::vector<Piece> result;
  for (const Piece& piece : pieces)
    for (int gpu = 0; gpu < piece.gpus; ++gpu) result.push_back({piece.node, piece.type, 1});
  return result;
}

}  // namespace

TEST_SUITE("solver") {
  TEST_CASE("rows are thinned out towards their end") {
    std::vector<std::size_t> places;
    for (std::size_t place = 1; place <= 80; ++place)
      if (looked_at(place)) places.push_back(place);
    CHECK(places == std::vector<std::size_t>{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80});
  }

  TEST_CASE("thinned prefixes are plans on exactly their GPUs where they are looked at, and none elsewhere") {
    std::mt19937 random(31);
    int expanded = 0, left_out = 0;
    for (int round = 0; round < 120; ++round) {
      const TinyCase tiny = open_case(random, 14);
      Evaluator evaluator(tiny.problem());
      const auto all = ones(tiny.available);
      const auto seeds = symmetric_seeds(evaluator, std::span(all).first(1), 1);
      if (seeds.empty()) continue;
      ExpandOptions options;
      options.thinned = true;
      const auto units = std::span(all).subspan(1);
      const auto prefixes = expand_prefixes(evaluator, seeds.front(), units, options);
      for (std::size_t i = 1; i < prefixes.size(); ++i) {
        CHECK(prefixes[i].gpus == static_cast<int>(i));
        if (units.size() > kWhole && !looked_at(i)) {
          ++left_out;
          CHECK(!prefixes[i].plan.feasible());
        } else if (prefixes[i].plan.feasible()) {
          ++expanded;
          CHECK(fault(tiny.problem(), tiny.available, prefixes[i].plan.sketch) == "");
          CHECK(prefixes[i].plan.sketch.gpus() == static_cast<int>(i) + 1);
          CHECK(prefixes[i].plan.ms == doctest::Approx(plain_time(tiny.problem(), prefixes[i].plan.sketch)));
        }
      }
    }
    CHECK(expanded > 100);
    CHECK(left_out > 20);
  }

  TEST_CASE("a short row is looked at whole, also where a longer one left entries out") {
    std::mt19937 random(34);
    int compared = 0;
    for (int round = 0; round < 120; ++round) {
      const TinyCase tiny = open_case(random, 14);
      Evaluator evaluator(tiny.problem());
      const auto all = ones(tiny.available);
      const auto seeds = symmetric_seeds(evaluator, std::span(all).first(1), 1);
      if (seeds.empty() || all.size() < kWhole + 2) continue;
      ExpandOptions options, thinned;
      thinned.thinned = true;
      const auto units = std::span(all).subspan(1), few = units.first(kWhole);
      const auto plain = expand_prefixes(evaluator, seeds.front(), few, options);
      const auto whole = expand_prefixes(evaluator, seeds.front(), few, thinned);
      auto known = expand_prefixes(evaluator, seeds.front(), units, thinned);
      if (known.size() > few.size() + 1) known.resize(few.size() + 1);
      const auto filled = expand_prefixes(evaluator, seeds.front(), few, thinned, known);
      REQUIRE(whole.size() == plain.size());
      REQUIRE(filled.size() == plain.size());
      for (std::size_t i = 1; i < plain.size(); ++i) {
        ++compared;
        CHECK(whole[i].plan.ms == plain[i].plan.ms);
        CHECK(filled[i].plan.feasible() == plain[i].plan.feasible());
      }
    }
    CHECK(compared > 100);
  }

  TEST_CASE("after the first units are taken, places are counted anew, and the row lacks none that is looked at") {
    std::mt19937 random(35);
    int compared = 0;
    for (int round = 0; round < 200; ++round) {
      const TinyCase tiny = open_case(random, 14);
      Evaluator evaluator(tiny.problem());
      const auto all = ones(tiny.available);
      const auto seeds = symmetric_seeds(evaluator, std::span(all).first(1), 1);
      if (seeds.empty() || all.size() < kWhole + 3) continue;
      ExpandOptions options;
      options.thinned = true;
      const auto units = std::span(all).subspan(1);
      auto known = expand_prefixes(evaluator, seeds.front(), units, options);
      for (const std::size_t taken : {6, 8}) {
        if (known.size() <= taken || !known[taken].plan.feasible()) continue;
        std::vector<PrefixPlan> left(known.begin() + static_cast<std::ptrdiff_t>(taken), known.end());
        for (PrefixPlan& one : left) one.gpus -= known[taken].gpus;
        const auto rest = units.subspan(taken);
        const auto again = expand_prefixes(evaluator, known[taken].plan, rest, options, left);
        const auto anew = expand_prefixes(evaluator, known[taken].plan, rest, options);
        REQUIRE(again.size() == anew.size());
        for (std::size_t i = 1; i < anew.size(); ++i) {
          ++compared;
          CHECK(again[i].gpus == anew[i].gpus);
          CHECK(again[i].plan.feasible() == anew[i].plan.feasible());
        }
      }
    }
    CHECK(compared > 50);
  }

  TEST_CASE("the fastest tiling is the same however many are asked for, and below whatever bound") {
    std::mt19937 random(32);
    int compared = 0;
    for (int round = 0; round < 300; ++round) {
      const TinyCase tiny = open_case(random, 12);
      Evaluator plain(tiny.problem()), quick(tiny.problem()), bounded(tiny.problem());
      const auto all = symmetric_seeds(plain, tiny.available, 1000);  // leaves none out
      const auto one = symmetric_seeds(quick, tiny.available, 1);
      REQUIRE(one.size() == std::min<std::size_t>(1, all.size()));
      if (all.empty()) continue;
      ++compared;
      const double best = all.front().ms;
      CHECK(one.front().ms == best);
      CHECK(symmetric_seeds(bounded, tiny.available, 1, best).empty());
      const auto below = symmetric_seeds(bounded, tiny.available, 1, best * 1.001);
      REQUIRE(below.size() == 1);
      CHECK(below.front().sketch == one.front().sketch);
      CHECK(symmetric_seeds(bounded, tiny.available, 1, best).empty());
      CHECK(symmetric_seeds(bounded, tiny.available, 1).front().sketch == one.front().sketch);
    }
    CHECK(compared > 100);
  }

  TEST_CASE("alike jobs share a book, others do not, and the last that were asked for are kept") {
    std::mt19937 random(33);
    const TinyCase tiny = open_case(random, 4);
    const auto site = std::make_shared<const Site>(), other_site = std::make_shared<const Site>();
    StageBooks books;
    JobCoefficients job = tiny.job;
    const auto first = books.of(site, job, {});
    CHECK(books.of(site, job, {}) == first);
    PlanBounds equal, fixed;
    equal.equal_shares = true;
    fixed.fixed_micro_batches = 2;
    CHECK(books.of(site, job, equal) != first);
    CHECK(books.of(site, job, fixed) != first);
    job.param_bytes += 1;
    CHECK(books.of(site, job, {}) != first);
    for (int i = 0; i < 40; ++i) {
      CHECK(books.of(site, tiny.job, {}) == first);
      job.param_bytes += 1;
      books.of(site, job, {});
    }
    CHECK(books.of(other_site, tiny.job, {}) != first);
  }
}
