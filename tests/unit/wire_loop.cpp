#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "planner/wire/loop.hpp"

using espalier::wire::Loop;

TEST_CASE("a deferred callback that throws ends the run, and those behind it come with the next one, in their order") {
  Loop loop;
  std::string told;
  loop.defer([&] {
    told += "a";
    loop.defer([&] {
      told += "d";
      loop.stop();
    });
  });
  loop.defer([] { throw std::runtime_error("broken"); });
  loop.defer([&] { told += "b"; });
  loop.defer([&] { told += "c"; });
  CHECK_THROWS_WITH(loop.run(), "broken");
  CHECK(told == "a");
  loop.run();
  CHECK(told == "abcd");
}
