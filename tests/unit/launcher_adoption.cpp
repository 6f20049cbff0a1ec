// Which base that an earlier launcher has left a movable job goes on with.
#include <doctest/doctest.h>

#include "launcher/base/adoption.hpp"
#include "launcher/base/base_shape.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

wire::Continuation left(JobId base, int restarts, std::int64_t number) {
  wire::Continuation one;
  one.base = base;
  one.restarts = restarts;
  one.number = number;
  return one;
}

const auto suits = [](const wire::Continuation&) { return true; };

}  // namespace

TEST_CASE("a job goes on with the base that the newest launcher named last, and gives the others back") {
  Adoption adoption;
  for (const JobId id : {11, 12, 13}) adoption.await(id);
  adoption.heard(left(12, 1, 4));
  adoption.heard(left(11, 0, 9));  // of an earlier launcher
  adoption.heard(left(13, 1, 3));  // older
  CHECK(adoption.came(11));
  CHECK(adoption.came(12));
  CHECK_FALSE(adoption.complete());
  CHECK(adoption.came(13));
  REQUIRE(adoption.complete());
  const Adoption::Choice choice = adoption.choose(suits);
  CHECK(choice.base == 12);
  CHECK(choice.others == std::vector<JobId>{11, 13});
  CHECK(adoption.continuation()->number == 4);
}

TEST_CASE("where no launcher had started ranks a job takes its newest base") {
  Adoption adoption;
  adoption.await(11);
  adoption.await(12);
  CHECK(adoption.came(11));
  CHECK(adoption.came(12));
  CHECK(adoption.choose(suits).base == 12);
}

TEST_CASE("a base that ends is not chosen, before its keepers have come or after, but the one beside it") {
  for (const bool had_come : {false, true}) {
    Adoption adoption;
    adoption.await(11);
    adoption.await(12);
    adoption.heard(left(11, 1, 1));
    if (had_come) CHECK(adoption.came(11));
    CHECK(adoption.ended(11));
    CHECK(adoption.came(12));
    REQUIRE(adoption.complete());
    const Adoption::Choice choice = adoption.choose(suits);
    CHECK(choice.base == 12);
    CHECK(choice.others.empty());
  }
  Adoption none;
  none.await(11);
  none.heard(left(11, 1, 1));
  CHECK(none.ended(11));
  CHECK(none.choose(suits).base == 0);
  CHECK(none.choose(suits).why_none == "its keepers have ended");
}

TEST_CASE("what another program has left is of no use") {
  Adoption adoption;
  adoption.await(11);
  adoption.heard(left(11, 1, 1));
  CHECK(adoption.came(11));
  const Adoption::Choice choice = adoption.choose([](const wire::Continuation&) { return false; });
  CHECK(choice.base == 0);
  CHECK(choice.others == std::vector<JobId>{11});
  CHECK(choice.why_none == "another program ran there");
}

TEST_CASE("a base that nobody left is told apart") {
  Adoption adoption;
  CHECK(adoption.complete());
  CHECK_FALSE(adoption.came(20));
  CHECK_FALSE(adoption.ended(20));
}

TEST_CASE("a second base has the CPUs and the memory of the first for each GPU") {
  BaseShape first;
  first.nodes = 1;
  first.gpus_per_node = 4;
  first.cpus_per_node = 13;
  first.memory_mb_per_node = 4001;
  const BaseShape second = same_per_gpu(first, 2, 2);
  CHECK(second.nodes == 2);
  CHECK(second.gpus_per_node == 2);
  CHECK(second.cpus_per_node == 6);
  CHECK(second.memory_mb_per_node == 2000);
  first.cpus_per_node = 1;
  first.memory_mb_per_node = 1;
  CHECK(same_per_gpu(first, 4, 1).cpus_per_node == 1);
  CHECK(same_per_gpu(first, 4, 1).memory_mb_per_node == 1);
}

// Such a job trained on fewer GPUs than MIN from its first step on.
TEST_CASE("a base of which fewer GPUs than MIN are left is of use only to a training that has begun there") {
  const auto enough = [](JobId base) { return base != 11; };
  Adoption adoption;
  adoption.await(11);
  CHECK(adoption.came(11));
  const Adoption::Choice none = adoption.choose(suits, enough);
  CHECK(none.base == 0);
  CHECK(none.others == std::vector<JobId>{11});
  CHECK(none.why_none == "fewer GPUs than MIN are left of it");

  Adoption two;
  for (const JobId id : {10, 11}) two.await(id);
  two.heard(left(11, 1, 1));  // ranks were started there, and no generation has trained
  CHECK(two.came(10));
  CHECK(two.came(11));
  CHECK(two.choose(suits, enough).base == 10);

  Adoption trained;
  trained.await(11);
  wire::Continuation begun = left(11, 1, 1);
  begun.source = wire::Assign::Source{};
  trained.heard(begun);
  CHECK(trained.came(11));
  CHECK(trained.choose(suits, enough).base == 11);
}
