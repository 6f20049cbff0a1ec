// The planner forgets what jobs have taught it: for whom, and what is left to jobs that relied on it.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/daemon/sqlite.hpp"
#include "tests/unit/learning_cases.hpp"

using namespace espalier;
using namespace espalier::test;
using namespace espalier::learning_cases;

TEST_CASE("the owner and administrators make the planner forget, nobody else does") {
  Learning daemon;
  const auto first = daemon.teaches();
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  const Json shown = daemon.asks(1001, "profiles").at("profiles");
  REQUIRE(shown.size() == 1);
  const Json id = shown[0].at("id");
  CHECK(shown[0].at("measurements") == 1);
  CHECK(shown[0].at("job").at("program") == "train 1.0");
  CHECK_FALSE(shown[0].contains("coefficients"));
  CHECK(daemon.asks(1001, "profile", {{"profile", id}}).at("profile").at("coefficients").is_object());
  CHECK_THROWS_WITH_AS(daemon.asks(1001, "forget", {{"profile", id}}),
                       doctest::Contains("only its owner, root and SlurmUser may forget it"), Error);
  CHECK(daemon.asks(1001, "forget", {{"all", true}}).at("forgotten").empty());
  CHECK(daemon.asks(1000, "forget", {{"profile", id}}).at("forgotten").size() == 1);
  CHECK_FALSE(daemon.coefficients(11));  // it relied on what is forgotten
  CHECK(daemon.coefficients(10));        // it has measured that itself
  CHECK_THROWS_AS(daemon.asks(1000, "forget", {{"profile", id}}), Error);
  CHECK_THROWS_AS(daemon.asks(1000, "profile", {{"profile", id}}), Error);
}

TEST_CASE("forgetting reaches a job that has measured a part of its own, and after a restart too") {
  for (const bool restarted : {false, true}) {
    CAPTURE(restarted);
    Learning daemon;
    auto first = daemon.teaches();
    auto row = daemon.store.newest_knowledge(10).at(0);
    row.coefficients["gpu"]["h100"]["overlap"] = 7.0;
    row.coefficients["gpu"]["h100"]["assumed_overlap"] = false;
    daemon.store.save(row);
    daemon.run_second(1000);
    daemon.planner->hold(11, true);
    auto second = daemon.registers(training(11, "n2"), 1000);
    auto told = training(11, "n2");
    told.profile = calm_profile(told, 9);
    second->says(wire::Status{told});
    REQUIRE_FALSE(daemon.book(11).recalled());
    CHECK_FALSE(daemon.coefficients(11)->gpu[0].assumed_overlap);  // as the first job had it
    if (restarted) {
      daemon.start();
      second = daemon.registers(training(11, "n2"), 1000);
      REQUIRE(daemon.coefficients(11));
      CHECK_FALSE(daemon.coefficients(11)->gpu[0].assumed_overlap);
    }
    const auto comp = daemon.coefficients(11)->gpu[0].comp;
    daemon.asks(1000, "forget", {{"profile", row.id}});
    REQUIRE(daemon.coefficients(11));
    CHECK(daemon.coefficients(11)->gpu[0].comp == doctest::Approx(comp));
    CHECK(daemon.coefficients(11)->gpu[0].assumed_overlap);
  }
}

// Its record was emptied first, and the new one was not written where the user's launchers had written much.
TEST_CASE("forgetting keeps a job's own figures, however much its launcher has had written") {
  Learning daemon;
  auto first = daemon.teaches();
  const auto row = daemon.store.newest_knowledge(10).at(0);
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  auto second = daemon.registers(training(11, "n2"), 1000);
  auto told = training(11, "n2");
  told.profile = calm_profile(told, 9);
  second->says(wire::Status{told});
  REQUIRE_FALSE(daemon.book(11).recalled());
  REQUIRE_FALSE(daemon.planner->jobs().at(11).recalled_rows.empty());
  told.profile.reset();
  bool written = true;  // a new generation is, until the user's launchers have had too much written
  for (int i = 1; i < 100000 && written; ++i) {
    const double before = daemon.planner->jobs().at(11).saved;
    told.generation = i;
    daemon.planner->status(11, told);
    written = daemon.planner->jobs().at(11).saved != before;
  }
  REQUIRE_FALSE(written);
  // A long record, as soon as one may be written again, overdraws what the user may have written for a while.
  wire::Outcome act;
  act.job = 11;
  act.kind = DecisionKind::recover;
  act.result = "committed";
  act.plan = *told.plan;
  act.candidates.assign(16, {std::string(1000, 'x'), 2, 1, 0, std::string(1000, 'x')});
  for (int i = 0; i < 20; ++i) {
    daemon.planner->outcome(act);
    daemon.pass(1);
  }
  daemon.planner->forget(row.id);
  REQUIRE(daemon.coefficients(11));
  const auto kept = daemon.store.coefficients(11);
  REQUIRE(kept);
  CHECK(kept->value("rows", std::vector<std::int64_t>{1}).empty());
  daemon.start();
  second = daemon.registers(training(11, "n2"), 1000);
  CHECK(daemon.coefficients(11));
}

TEST_CASE("a user forgets all rows of his own at once, and nobody else's are read") {
  Learning daemon;
  const auto first = daemon.teaches();
  Knowledge others = daemon.store.newest_knowledge(10).at(0);
  others.uid = 1001;
  daemon.store.save(others);
  // To read what this one tells throws.
  Database(daemon.folder.file("test.db")).execute("UPDATE knowledge SET record='no JSON' WHERE uid=1001");
  CHECK(daemon.asks(1000, "forget", {{"all", true}}).at("forgotten").size() == 1);
  CHECK(daemon.store.knowledge_ids(std::nullopt, 10) == std::vector<std::int64_t>{others.id});
}

TEST_CASE("an administrator forgets everything at once") {
  Learning daemon;
  const auto first = daemon.teaches();
  CHECK(daemon.asks(64030, "forget", {{"all", true}}).at("forgotten").size() == 1);
  CHECK(daemon.store.newest_knowledge(10).empty());
}
