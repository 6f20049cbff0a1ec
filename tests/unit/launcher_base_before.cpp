// How long the base that training was on before is held, and which base training is on.
#include "launcher/base/base_before.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "launcher/base/current_base.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Held {
  wire::Loop loop;
  std::vector<JobId> given_back;
  BaseBefore before{loop, [this](JobId id) {
                      given_back.push_back(id);
                      loop.stop();
                    }};
  void steps(int count, bool settled) {
    for (int i = 0; i < count; ++i) before.stepped(settled);
  }
};

constexpr wire::Loop::Milliseconds kLong{3'600'000};

}  // namespace

TEST_CASE("the base before is given back after five steps on the present one, once what a loss needs is there") {
  Held held;
  held.before.hold(11, kLong);
  held.steps(4, true);
  CHECK(held.given_back.empty());
  held.steps(20, false);
  CHECK(held.given_back.empty());
  CHECK(held.before.id() == 11);
  held.steps(1, true);
  CHECK(held.given_back == std::vector<JobId>{11});
  CHECK(held.before.id() == 0);
  held.steps(20, true);
  CHECK(held.given_back.size() == 1);
}

TEST_CASE("the steps beside a base before are counted anew with each move") {
  Held held;
  held.before.hold(11, kLong);
  held.steps(5, true);
  held.before.hold(12, kLong);
  held.steps(4, true);
  CHECK(held.given_back == std::vector<JobId>{11});
}

TEST_CASE("a base before that training never settles beside is given back after the longest time") {
  Held held;
  held.before.hold(11, wire::Loop::Milliseconds(1));
  const wire::Watch limit = held.loop.after(wire::Loop::Milliseconds(60'000), [&] { held.loop.stop(); });
  held.loop.run();
  CHECK(held.given_back == std::vector<JobId>{11});
}

TEST_CASE("a base before that has ended is not given back, and another one that ends changes nothing") {
  Held held;
  held.before.hold(11, kLong);
  held.before.ended(12);
  CHECK(held.before.id() == 11);
  held.before.ended(11);
  held.steps(10, true);
  CHECK(held.given_back.empty());
}

TEST_CASE("limits of a base that training has left meanwhile do not count") {
  CurrentBase current(BaseTime(0, 60));
  CHECK(current.take(11, 4600) == 0);
  const auto last = current.time().last();
  CHECK(current.take(12, 4600) == 11);
  current.limits_read(11, BaseTime(1000));
  CHECK(current.time().last() == last);
  current.limits_read(12, BaseTime(1000));
  CHECK(current.time().last() == 1000);
  CHECK_FALSE(current.ended(11));
  CHECK(current.ended(12));
  CHECK(current.id() == 0);
}
