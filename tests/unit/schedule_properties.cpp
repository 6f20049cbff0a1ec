// Properties of every decision, on random clusters.
#include "tests/unit/random_clusters.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

SchedulerOptions random_options(Dice& dice) {
  SchedulerOptions options;
  options.lambda = dice.roll(0, 3) == 0 ? 1 : 8;
  options.as_printed = dice.roll(0, 2) == 0;
  options.reclaim = dice.roll(0, 2) != 0;
  return options;
}

}  // namespace

TEST_CASE("no decision touches an anchor, a busy GPU or a maximum") {
  Dice dice{std::mt19937(7)};
  std::map<DecisionKind, int> kinds;
  for (int round = 0; round < 1000; ++round) {
    const PlanningInput input = random_input(dice);
    const auto decisions = decide(input, random_options(dice));
    for (const Decision& d : decisions) ++kinds[d.kind];
    check(input, decisions);
  }
  CHECK(kinds[DecisionKind::grow] > 100);  // grows do occur
  CHECK(kinds[DecisionKind::shrink] > 50);
  CHECK(kinds[DecisionKind::migrate] > 20);
}

TEST_CASE("the order in which things are told changes no decision") {
  Dice dice{std::mt19937(11)};
  for (int round = 0; round < 300; ++round) {
    PlanningInput input = random_input(dice);
    const Json before = decide(input);
    std::shuffle(input.cluster.waiting.begin(), input.cluster.waiting.end(), dice.engine);
    std::shuffle(input.jobs.begin(), input.jobs.end(), dice.engine);
    CHECK(Json(decide(input)) == before);
  }
}

TEST_CASE("a scheduler that remembers decides as one that does not") {
  Dice dice{std::mt19937(13)};
  const auto remembering = make_suika_scheduler(bold());
  for (int round = 0; round < 100; ++round) {
    PlanningInput input = random_input(dice);
    for (int look = 0; look < 3; ++look) {
      CHECK(Json(remembering->decide(input)) == Json(decide(input)));
      for (NodeView& view : input.cluster.nodes)  // other jobs start and end on these nodes
        for (JobId& owner : view.gpu_owner)
          if (owner == 0 && dice.roll(0, 2) == 0) owner = 9999;
          else if (owner == 9999) owner = 0;
    }
  }
}
