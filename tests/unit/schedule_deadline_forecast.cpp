#include <doctest/doctest.h>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/deadline_forecast.hpp"
#include "planner/core/schedule/duration_text.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/solver/best_plan.hpp"
#include "planner/core/topology/from_view.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("the forecast of a job's end: on its own GPUs, and on the number up to its maximum that is fastest") {
  ClusterView view;
  view.nodes = {node("n1", 4), node("n2", 4)};
  const Site site = site_from_view(view, {}).site;
  ElasticJob one = job(10, "n1", {0, 1}, 8);
  one.total_steps = 100;
  const JobCoefficients sheet = sheet_for(one, site);
  const auto forecast = deadline_forecast(one, site, sheet, false, 1000, 10);
  REQUIRE(forecast);
  CHECK(forecast->own_gpus == 2);
  CHECK(forecast->own_end == doctest::Approx(1000 + 10 + 100 * 1));
  CHECK(forecast->best_end < forecast->own_end);
  CHECK(forecast->best_end > 1000 + 10);
  CHECK(forecast->best_gpus > 2);
  CHECK(forecast->best_gpus <= 8);
  CHECK(forecast->least_end <= forecast->best_end);
  CHECK(!forecast->measured);
  // No more than its maximum, and no more than its own where it is held.
  one.max_gpus = 2;
  CHECK(deadline_forecast(one, site, sheet, true, 1000, 10)->best_end == forecast->own_end);
  one.max_gpus = 8;
  one.held = true;
  CHECK(deadline_forecast(one, site, sheet, true, 1000, 10)->best_gpus == 2);
  one.total_steps = 0;
  CHECK(!deadline_forecast(one, site, sheet, true, 1000, 10));
}

namespace {

// Where job 10 would end at the earliest on these GPUs of n1 and n2, by a thorough search.
double thorough_end(const ElasticJob& one, const Site& site, const JobCoefficients& coefficients, int of_n1,
                    int of_n2) {
  const Problem problem{site.hardware, site.topology, as_the_job_allows(coefficients, one), bounds_of(one, site), {}};
  Evaluator evaluator(problem);
  std::vector<Piece> pieces{{0, 0, static_cast<std::int16_t>(of_n1)}};
  if (of_n2 > 0) pieces.push_back({1, 0, static_cast<std::int16_t>(of_n2)});
  const auto found = best_plan(evaluator, pieces, {}, {});
  REQUIRE(found);
  return 1000 + static_cast<double>(one.total_steps) * evaluator.exact_sketch(found->sketch) / 1000;
}

}  // namespace

// What a user can lose by a search that is too small: a job that would have been in time is refused.
TEST_CASE("no deadline that some plan keeps counts as surely missed") {
  ClusterView view;
  view.nodes = {node("n1", 8), node("n2", 8)};
  const Site site = site_from_view(view, {}).site;
  ElasticJob one = job(10, "n1", {0, 1}, 16);
  one.total_steps = 1000;
  int most = 16;
  SUBCASE("on a number of GPUs between those that were looked at") { one.model.layers = 7; }
  SUBCASE("with another tensor-parallel degree") {
    one.parallel = {};
    one.accuracy = Accuracy::relaxed;
    one.model.hidden = 8192;
    one.model.sequence = 4096;
  }
  SUBCASE("with stages of different sizes") {
    one.model.layers = 11;
    one.max_gpus = most = 7;
  }
  one.plan = uniform_plan(1, 2, one.model.layers, 4, 2, one.plan->ranks());
  const JobCoefficients sheet = sheet_for(one, site);
  one.step_seconds = evaluate_plan(site.hardware, site.topology, sheet, *one.plan).exact_ms / 1000;
  const auto forecast = deadline_forecast(one, site, sheet, true, 1000, 0);
  REQUIRE(forecast);
  CHECK(forecast->least_end <= forecast->best_end);
  CHECK(forecast->least_end > 1000);
  for (int gpus = 2; gpus <= most; ++gpus)
    CHECK(forecast->least_end <= thorough_end(one, site, sheet, std::min(gpus, 8), std::max(0, gpus - 8)) + 1e-6);
}

TEST_CASE("the search for the best end takes other tensor-parallel degrees and uneven stages where the job may") {
  ClusterView view;
  view.nodes = {node("n1", 8), node("n2", 8)};
  const Site site = site_from_view(view, {}).site;
  ElasticJob one = job(10, "n1", {0, 1}, 3);
  one.total_steps = 1000;
  one.model.layers = 8;  // three stages of 3, 3 and 2 layers
  one.step_seconds = evaluate_plan(site.hardware, site.topology, sheet_for(one, site), *one.plan).exact_ms / 1000;
  const auto forecast = deadline_forecast(one, site, sheet_for(one, site), true, 1000, 0);
  REQUIRE(forecast);
  CHECK(forecast->best_gpus == 3);
  CHECK(forecast->best_end <= thorough_end(one, site, sheet_for(one, site), 3, 0) * 1.02);
}

TEST_CASE(
    "nodes that the job may have no extension on do not count for the forecast, but for its bound, as they may be open "
    "later") {
  ClusterView view;
  view.nodes = {node("n1", 4), node("n2", 4)};
  const Site site = site_from_view(view, {}).site;
  ElasticJob one = job(10, "n1", {0, 1}, 8);
  deepen(one, 60);
  one.total_steps = 100;
  const JobCoefficients sheet = sheet_for(one, site);
  one.step_seconds = evaluate_plan(site.hardware, site.topology, sheet, *one.plan).exact_ms / 1000;
  const auto open = deadline_forecast(one, site, sheet, true, 1000, 0);
  const std::vector<std::string> closed{"n2"}, both{"n1", "n2"};
  const auto half = deadline_forecast(one, site, sheet, true, 1000, 0, closed);
  const auto none = deadline_forecast(one, site, sheet, true, 1000, 0, both);
  REQUIRE((open && half && none));
  CHECK(open->best_gpus > 4);
  CHECK(half->best_gpus <= 4);
  CHECK(half->best_gpus > 2);
  CHECK(none->best_gpus == 2);
  for (const auto* one_of : {&half, &none}) CHECK((*one_of)->least_end == open->least_end);
  // So may today's limits be gone, and whatever holds the job.
  ElasticJob limited = one;
  limited.max_gpus = 2;
  limited.held = true;
  CHECK(deadline_forecast(limited, site, sheet, true, 1000, 0, both, 8)->least_end == open->least_end);
  CHECK(deadline_forecast(limited, site, sheet, true, 1000, 0, both)->least_end > open->least_end);
}

TEST_CASE("types whose speed is assumed count as fast before a job is refused") {
  ClusterView view;
  view.nodes = {node("n1", 4), node("n2", 4, "leaf1", "a100")};
  const Site site = site_from_view(view, {}).site;
  ElasticJob one = job(10, "n1", {0, 1}, 8);
  one.total_steps = 100;
  JobCoefficients measured = sheet_for(one, site);
  for (GpuCoefficients& gpu : measured.gpu) gpu.assumed_comp = false;
  const auto known = deadline_forecast(one, site, measured, true, 1000, 0);
  measured.gpu.at(static_cast<std::size_t>(site.hardware.type_index("a100"))).assumed_comp = true;
  const auto assumed = deadline_forecast(one, site, measured, true, 1000, 0);
  REQUIRE((known && assumed));
  CHECK(assumed->least_end <= known->least_end);
  CHECK(assumed->best_end == known->best_end);
}

TEST_CASE("a forecast in words for explain") {
  const DeadlineForecast forecast{1300, 1100, 2, 8, true};
  CHECK(describe(forecast, 1200, 1000) ==
        "3.33 min to its deadline: 5 min on its 2 GPUs, 100 s on 8, by what a job like it measured");
  CHECK(describe({1300, 1300, 2, 2, false}, 900, 1000) ==
        "its deadline is over: 5 min on its 2 GPUs, by the GPUs' data sheets");
  CHECK(duration_text(45) == "45 s");
  CHECK(duration_text(10800) == "3 h");
  CHECK(duration_text(3 * 86400) == "3 days");
}
