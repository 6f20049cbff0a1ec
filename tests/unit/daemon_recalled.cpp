// What jobs teach the planner: for the next job like them, and for itself after a restart.
#include <doctest/doctest.h>

#include "planner/daemon/kept_coefficients.hpp"
#include "tests/unit/learning_cases.hpp"

using namespace espalier;
using namespace espalier::test;
using namespace espalier::learning_cases;

TEST_CASE("a second job like the first is planned with the first one's coefficients from its registration") {
  Learning daemon;
  const auto first = daemon.teaches();
  const auto taught = daemon.coefficients(10);
  REQUIRE(taught);
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  CHECK(daemon.book(11).recalled());
  CHECK(*daemon.coefficients(11) == *taught);
  const Json shown = daemon.asks(1000, "job", {{"job", 11}}).at("job");
  CHECK(shown.at("coefficients_settled") == true);
  CHECK(shown.at("coefficients_source").at("kind") == "profiles of earlier jobs");
  CHECK(shown.at("coefficients_source").at("profiles").size() == 1);
  CHECK(shown.at("coefficients_measured").at("computation.h100") == true);
  CHECK(shown.at("coefficients_measured").at("overlap.h100") == false);

  auto told = training(11, "n2");
  told.profile = calm_profile(told, 9, 1.5);
  second->says(wire::Status{told});
  CHECK_FALSE(daemon.book(11).recalled());
  CHECK(daemon.coefficients(11)->gpu[0].comp == doctest::Approx(1.5 * taught->gpu[0].comp));
  const auto rows = daemon.store.newest_knowledge(10);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].speed.count == 2);
  CHECK(rows[0].doubt() == doctest::Approx(0.2));
}

TEST_CASE("one user's jobs teach nothing about another user's, unless the site says so") {
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    Learning daemon;
    PlannerSettings settings = daemon.planner->settings();
    settings.share_profiles = shared;
    daemon.planner->configure(settings);
    const auto first = daemon.teaches();
    daemon.run_second(1001);
    daemon.planner->hold(11, true);
    const auto second = daemon.registers(training(11, "n2"), 1001);
    CHECK(daemon.coefficients(11).has_value() == shared);
  }
}

TEST_CASE("a job of another setting gets nothing") {
  Learning daemon;
  const auto first = daemon.teaches();
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  auto other = training(11, "n2");
  other.model.setting->precision = "bfloat16";
  const auto second = daemon.registers(other, 1000);
  CHECK_FALSE(daemon.coefficients(11));
}

TEST_CASE("a restarted planner plans a known job with the same coefficients, without a new profile") {
  Learning daemon;
  auto first = daemon.teaches();
  const auto before = daemon.coefficients(10);
  REQUIRE(before);
  daemon.start();
  auto known = training(10);
  known.profile = calm_profile(known, 9, 3);  // a launcher repeats its newest profile
  first = daemon.registers(known, 1000);
  CHECK(daemon.book(10).settled());
  CHECK_FALSE(daemon.book(10).recalled());
  CHECK(*daemon.coefficients(10) == *before);
  CHECK(daemon.store.newest_knowledge(10).at(0).speed.count == 1);
}

TEST_CASE("a restarted planner knows again how fast the links are by other jobs, and so does a recalled job") {
  Learning daemon;
  auto first = daemon.teaches();
  ElasticJob of = training(12);
  of.model.hidden *= 2;  // another kind of job
  Knowledge row;
  row.uid = 1000;
  row.job = description(of);
  row.gpus = "h100";
  auto measured = known_coefficients();
  measured.assumed_rail = false;
  measured.rail_ms_per_byte = 3e-5;
  learn(row, measured, 0.01, site_of());
  daemon.store.save(row);
  CHECK(daemon.coefficients(10)->rail_ms_per_byte == 0);
  daemon.start();
  auto known = training(10);
  known.profile = calm_profile(known, 9);
  first = daemon.registers(known, 1000);
  CHECK(daemon.coefficients(10)->rail_ms_per_byte == 3e-5);
  CHECK(daemon.coefficients(10)->assumed_rail);
  known.profile = calm_profile(known, 19);
  first->says(wire::Status{known});
  CHECK(daemon.coefficients(10)->rail_ms_per_byte == 3e-5);
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  REQUIRE(daemon.book(11).recalled());
  CHECK(daemon.coefficients(11)->rail_ms_per_byte == 3e-5);
  CHECK(daemon.coefficients(11)->assumed_rail);
}

TEST_CASE("what jobs under another driver taught does not count") {
  const auto row = [](std::int64_t id, const std::string& driver, double updated) {
    Knowledge made;
    made.id = id;
    made.driver = driver;
    made.updated = updated;
    return made;
  };
  const auto kept = [&](const std::string& driver) {
    std::vector<Knowledge> rows{row(1, "550", 10), row(2, "535", 20), row(3, "", 5)};
    keep_one_driver(rows, driver);
    std::vector<std::int64_t> ids;
    for (const Knowledge& one : rows) ids.push_back(one.id);
    return ids;
  };
  CHECK(kept("550") == std::vector<std::int64_t>{1, 3});
  CHECK(kept("") == std::vector<std::int64_t>{2, 3});  // the newest one's

  Learning daemon;
  daemon.planner->hold(10, true);
  const auto first = daemon.registers(training(10), 1000);
  auto told = training(10);
  told.profile = calm_profile(told, 9);
  told.profile->driver = "535";
  first->says(wire::Status{told});
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  REQUIRE(daemon.book(11).recalled());
  told = training(11, "n2");
  told.profile = calm_profile(told, 9);
  told.profile->driver = "550";
  for (ReplicaProfile& one : told.profile->replicas) one.spread = 0.5;  // none of its own counts yet
  second->says(wire::Status{told});
  CHECK_FALSE(daemon.book(11).recalled());
  CHECK_FALSE(daemon.coefficients(11));
}

TEST_CASE("coefficients of an earlier job with the same id are not restored") {
  Learning daemon;
  auto first = daemon.teaches();
  daemon.start();
  auto other = training(10);
  other.model.hidden = 128;
  first = daemon.registers(other, 1000);
  CHECK_FALSE(daemon.coefficients(10));
}

TEST_CASE("pauses and starts are learnt too, recoveries are not") {
  Learning daemon;
  const auto link = daemon.teaches();
  wire::Outcome own;
  own.job = 10;
  own.kind = DecisionKind::shrink;
  own.result = "committed";
  own.pause_ms = 250;
  own.phases_ms = {{"start", 1500}};
  own.plan = *training(10).plan;
  link->says(own);
  own.kind = DecisionKind::recover;
  own.pause_ms = 9000;
  link->says(own);
  const auto row = daemon.store.newest_knowledge(10).at(0);
  CHECK(row.pause.count == 1);
  CHECK(row.pause.mean == doctest::Approx(0.25));
  CHECK(row.start.mean == doctest::Approx(1.5));
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  CHECK(*daemon.planner->jobs().at(11).pause_seconds == doctest::Approx(0.25));
  CHECK(*daemon.planner->jobs().at(11).start_seconds == doctest::Approx(1.5));
}
