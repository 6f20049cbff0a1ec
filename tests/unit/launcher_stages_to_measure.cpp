// The order in which a profile job measures stages.
#include "launcher/profile/stages_to_measure.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

TEST_CASE("a profile job measures the stages of a plan in turn, and begins anew with the next plan") {
  StagesToMeasure stages;
  CHECK(stages.empty());
  const Json first{{"plan", "A"}, {"stages", {{{"stage", 0}, {"replica", 1}}, {{"stage", 2}, {"replica", 0}}}}};
  const Json second{{"plan", "B"}, {"stages", {{{"stage", 1}, {"replica", 0}}}}};
  stages.take(Json::array({first, second}));
  CHECK(stages.plan() == "A");
  CHECK(stages.next().stage == 0);
  CHECK(stages.next().replica == 1);
  stages.measured("of 0");
  CHECK_FALSE(stages.all_measured());
  CHECK(stages.next().stage == 2);
  stages.measured("of 2");
  CHECK(stages.all_measured());
  CHECK(stages.profiles() == Json::array({"of 0", "of 2"}));
  stages.next_plan();
  CHECK(stages.plan() == "B");
  CHECK(stages.profiles().empty());
  CHECK(stages.next().stage == 1);
  stages.next_plan();
  CHECK(stages.empty());
}

TEST_CASE("plans that espalierd sends malformed are refused") {
  StagesToMeasure stages;
  CHECK_THROWS(stages.take(Json::array({Json{{"plan", "A"}}})));
}
