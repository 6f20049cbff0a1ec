#include "launcher/recovery/earlier_generations.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Kept {
  std::vector<std::pair<int, int>> told;  // generation, copies
  EarlierGenerations earlier{[this](const wire::Keep& what) { told.emplace_back(what.generation, what.copies); }};
  void step(std::int64_t number, bool settled = false) {
    wire::Step step;
    step.step = number;
    step.settled = settled;
    earlier.stepped(step);
  }
};

using Told = std::vector<std::pair<int, int>>;

}  // namespace

TEST_CASE("older state is kept until a generation has trained, and snapshots of it until it has settled") {
  Kept kept;
  kept.step(1);
  CHECK(kept.told == Told{{0, 0}});
  kept.step(2);
  CHECK(kept.told.size() == 1);  // nothing has changed
  kept.earlier.succeed({}, 1, 2);
  CHECK(kept.told.size() == 1);
  CHECK(kept.earlier.what_to_keep().generation == 0);
  CHECK(kept.earlier.list().front().step == 2);
  kept.step(3);
  CHECK(kept.told.back() == std::pair{1, 0});
  kept.step(4);
  CHECK(kept.told.size() == 2);
  kept.step(5, true);
  CHECK(kept.told.back() == std::pair{1, 1});
  CHECK(kept.earlier.list().empty());
}

TEST_CASE("a generation that never settles does so after many steps") {
  Kept kept;
  kept.step(1);
  kept.earlier.succeed({}, 1, 10);
  kept.step(11);
  kept.step(109);
  CHECK(kept.told.back() == std::pair{1, 0});
  kept.step(110);
  CHECK(kept.told.back() == std::pair{1, 1});
}

TEST_CASE("what a generation gave up by beginning at an earlier step counts for none before it") {
  Kept kept;
  kept.step(1);
  kept.earlier.succeed({}, 1, 10);
  kept.earlier.succeed({}, 2, 8);
  REQUIRE(kept.earlier.list().size() == 2);
  CHECK(kept.earlier.list()[0].generation == 1);
  CHECK(kept.earlier.list()[0].step == 8);
  CHECK(kept.earlier.list()[1].step == 8);
  kept.step(6);  // from an older checkpoint still
  CHECK(kept.earlier.list()[0].step == 5);
}

TEST_CASE("the third generation back keeps snapshots only, and the seventh nothing") {
  Kept kept;
  kept.step(1);
  for (int next = 1; next <= 7; ++next) kept.earlier.succeed({}, next, 1);
  CHECK(kept.earlier.list().size() == 6);
  CHECK(kept.told.back() == std::pair{5, 1});
}

TEST_CASE("room is made once, and only before the first step") {
  Kept kept;
  CHECK_FALSE(kept.earlier.make_room());
  kept.step(1);
  kept.earlier.succeed({}, 1, 1);
  CHECK(kept.earlier.make_room());
  CHECK(kept.told.back() == std::pair{1, 0});
  CHECK_FALSE(kept.earlier.make_room());
  kept.earlier.succeed({}, 2, 1);
  kept.step(2);
  CHECK_FALSE(kept.earlier.make_room());
}

TEST_CASE("what an earlier launcher had kept is kept until a generation of this one has settled") {
  Kept kept;
  kept.earlier.take_over(4, {{3, {}, true, 17}});
  CHECK(kept.earlier.what_to_keep().generation == 4);
  CHECK(kept.earlier.what_to_keep().copies == 3);
  kept.earlier.succeed({}, 6, 20);
  REQUIRE(kept.earlier.list().size() == 2);
  CHECK(kept.earlier.list()[0].generation == 4);
  kept.step(21);
  kept.step(22, true);
  CHECK(kept.told.back() == std::pair{6, 6});
}
