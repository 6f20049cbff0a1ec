#include "torchrt/first_contact.hpp"

#include <doctest/doctest.h>

#include "planner/wire/endpoint.hpp"

using namespace espalier;
using std::chrono::milliseconds;
using torchrt::make_contact;

TEST_CASE("a worker that is dropped in its login tries again, and goes on where the launcher takes it on") {
  int tries = 0;
  const int got = make_contact(
      [&] {
        if (++tries < 4) throw wire::ConnectionLost("connection: closed by the peer");
        return 7;
      },
      {milliseconds(10'000), milliseconds(1)});
  CHECK(got == 7);
  CHECK(tries == 4);
}

TEST_CASE("a worker that is always dropped gives up after its time") {
  int tries = 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto connect = [&]() -> int {
    ++tries;
    throw wire::ConnectionLost("connection: closed by the peer");
  };
  CHECK_THROWS_AS(make_contact(connect, {milliseconds(100), milliseconds(10)}), wire::ConnectionLost);
  CHECK(tries > 1);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("a worker that is refused, or whose launcher is gone, does not try again") {
  int tries = 0;
  const auto refused = [&]() -> int {
    ++tries;
    throw Error("login: refused");
  };
  CHECK_THROWS_AS(make_contact(refused, {milliseconds(10'000), milliseconds(1)}), Error);
  CHECK(tries == 1);
  const auto nobody = [&]() -> int {
    ++tries;
    throw wire::NobodyListens("connection refused");
  };
  CHECK_THROWS_AS(make_contact(nobody, {milliseconds(10'000), milliseconds(1)}), wire::NobodyListens);
  CHECK(tries == 2);
}
