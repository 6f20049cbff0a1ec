// How long idle GPUs are likely to stay idle, by recent submissions.
#include "planner/core/schedule/idle_forecast.hpp"

#include <doctest/doctest.h>

#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// `count` submissions of `gpus` GPUs each, one every `each` seconds; the last one at `now`.
Arrivals every(double each, int count, int gpus, double now, double since = 0) {
  Arrivals arrivals(since);
  for (int i = count - 1; i >= 0; --i) arrivals.add({now - i * each, gpus});
  return arrivals;
}

constexpr double kNow = 8 * 3600;

// Job 10 has two GPUs, and two more are idle.
PlanningInput with_two_idle() {
  auto input = input_of({node("n1", 4), node("n2", 4)}, {job(10, "n1", {0, 1})});
  hold(input.cluster, {77, "n2", {0, 1, 2, 3}});
  input.now = kNow;
  return input;
}

}  // namespace

TEST_SUITE("schedule") {
  TEST_CASE("idle forecast: as many jobs as the other idle GPUs can serve, and one more") {
    // One job of four GPUs every 60 s.
    const IdleForecast one{16, 1.0 / 60, 4, {}};
    CHECK(one.seconds(16) == doctest::Approx(60));
    CHECK(one.seconds(13) == doctest::Approx(60));   // three others serve none
    CHECK(one.seconds(12) == doctest::Approx(120));  // four serve one
    CHECK(one.seconds(8) == doctest::Approx(180));
    CHECK(one.seconds(1) == doctest::Approx(240));
    CHECK(one.seconds(0) == doctest::Approx(300));
    CHECK(one.seconds(20) == doctest::Approx(60));  // more than are idle
  }

  TEST_CASE("idle forecast: never outside its limits, and the longest where nobody submits") {
    const IdleForecastLimits limits{28800, 3600, 100, 1000};
    CHECK(IdleForecast{8, 1, 4, limits}.seconds(8) == 100);
    CHECK(IdleForecast{8, 1e-6, 4, limits}.seconds(8) == 1000);
    CHECK(IdleForecast{8, 0, 1, limits}.seconds(8) == 1000);
    CHECK(IdleForecast{8, 1.0 / 500, 4, limits}.seconds(8) == doctest::Approx(500));
    // A mean below one GPU cannot be, but must not be divided by.
    CHECK(IdleForecast{8, 1.0 / 50, 0, limits}.seconds(4) == doctest::Approx(250));
  }

  TEST_CASE("idle forecast: rate and mean size are those of the window") {
    const IdleForecastLimits limits;
    Arrivals arrivals = every(60, 60, 2, 3600);                         // an hour of small jobs
    for (int i = 1; i <= 8; ++i) arrivals.add({3600 + i * 450.0, 16});  // an hour of eight large ones
    arrivals.add({7201, 0});                                            // without GPUs
    const auto both = idle_forecast(5, &arrivals, 7200, limits);
    REQUIRE(both);
    CHECK(both->idle == 5);
    CHECK(both->limits == limits);
    CHECK(both->rate == doctest::Approx(68 / 7200.0));
    CHECK(both->mean_gpus == doctest::Approx((60 * 2 + 8 * 16) / 68.0));
    const auto last = idle_forecast(5, &arrivals, 7200, {3600, 600, 60, 3600});
    REQUIRE(last);
    CHECK(last->rate == doctest::Approx(8 / 3600.0));
    CHECK(last->mean_gpus == doctest::Approx(16));
    // Jobs without GPUs alone are none.
    Arrivals none;
    none.add({5000, 0});
    const auto nobody = idle_forecast(5, &none, 7200, limits);
    REQUIRE(nobody);
    CHECK(nobody->rate == 0);
  }

  TEST_CASE("idle forecast: none before submissions are known for an hour") {
    const IdleForecastLimits limits;
    CHECK_FALSE(idle_forecast(5, nullptr, kNow, limits));
    const Arrivals fresh = every(60, 10, 2, kNow, kNow - 1800);
    CHECK_FALSE(idle_forecast(5, &fresh, kNow, limits));
    CHECK_FALSE(idle_forecast(5, &fresh, kNow + 1799, limits));
    CHECK(idle_forecast(5, &fresh, kNow + 1800, limits));
    // A shorter window is known sooner.
    CHECK(idle_forecast(5, &fresh, kNow, {1200, 3600, 60, 3600}));
    CHECK_FALSE(idle_forecast(5, &fresh, kNow - 1800, {1200, 3600, 60, 3600}));
  }

  TEST_CASE("idle forecast: a growth that its pause makes too dear for soon-used GPUs pays on quiet ones") {
    auto input = with_two_idle();
    input.redeploy_seconds[10] = 150;  // 300 s of idle time gain some 130 s
    const Arrivals busy = every(30, 900, 8, kNow), quiet = every(7200, 4, 8, kNow);
    SchedulerOptions forecast = bold();
    forecast.idle_forecast.emplace();
    input.arrivals = &quiet;
    CHECK(decide(input).empty());
    CHECK(decide(input, forecast).size() == 1);
    input.arrivals = &busy;
    CHECK(decide(input, forecast).empty());
    input.redeploy_seconds[10] = 60;
    CHECK(decide(input).size() == 1);
    CHECK(decide(input, forecast).empty());
    input.redeploy_seconds[10] = 10;
    CHECK(decide(input, forecast).size() == 1);
  }

  TEST_CASE("idle forecast: without a history the configured time counts, and the policy as printed never asks") {
    auto input = with_two_idle();
    input.redeploy_seconds[10] = 60;
    const Arrivals busy = every(30, 900, 8, kNow), fresh = every(30, 10, 8, kNow, kNow - 600);
    SchedulerOptions forecast = bold();
    forecast.idle_forecast.emplace();
    CHECK(decide(input, forecast).size() == 1);
    input.arrivals = &fresh;
    CHECK(decide(input, forecast).size() == 1);
    input.arrivals = &busy;
    CHECK(decide(input, forecast).empty());
    forecast.as_printed = true;
    CHECK(decide(input, forecast).size() == 1);
  }

  TEST_CASE("idle forecast: GPUs that waiting jobs will take are not idle") {
    // 8 GPUs idle, of which a waiting job takes 6: the next job to come needs the last two.
    auto input = input_of({node("n1", 4), node("n2", 8)}, {job(10, "n1", {0, 1, 2, 3})});
    input.now = kNow;
    input.redeploy_seconds[10] = 60;
    const Arrivals arrivals = every(100, 280, 2, kNow);
    input.arrivals = &arrivals;
    SchedulerOptions forecast = bold();
    forecast.idle_forecast = IdleForecastLimits{28800, 3600, 1, 3600};
    const auto grown = decide(input, forecast);
    REQUIRE(grown.size() == 1);
    CHECK(grown[0].kind == DecisionKind::grow);
    input.cluster.waiting = {{30, 6, 1, {}, {}}};
    CHECK(decide(input, forecast).empty());
  }
}
