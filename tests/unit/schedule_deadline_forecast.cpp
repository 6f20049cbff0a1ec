#include <doctest/doctest.h>

#include "planner/core/schedule/deadline_forecast.hpp"
#include "planner/core/schedule/duration_text.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
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
