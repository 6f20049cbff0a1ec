// Names are looked up beside the loop. A name server that does not answer blocks nothing.
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>

#include "planner/core/error.hpp"
#include "planner/wire/name_lookup.hpp"

using namespace espalier;
using namespace espalier::wire;
using std::chrono::milliseconds;

namespace {

NameLookup::Answer answer_of(const std::function<Endpoint()>& look_up) {
  Loop loop;
  NameLookup::Answer given;
  const auto limit = loop.after(milliseconds(5000), [&] { loop.stop(); });
  const NameLookup lookup(loop, look_up, [&](const NameLookup::Answer& answer) {
    given = answer;
    loop.stop();
  });
  loop.run();
  return given;
}

}  // namespace

TEST_CASE("a look-up gives the address, or why there is none") {
  const auto found = answer_of([] { return resolve("localhost", 7); });
  REQUIRE(found.endpoint);
  CHECK(to_string(*found.endpoint) == "127.0.0.1:7");
  const auto none = answer_of([]() -> Endpoint { throw Error("host \"nowhere\": not known"); });
  CHECK_FALSE(none.endpoint);
  CHECK(none.why_not == "host \"nowhere\": not known");
}

TEST_CASE("while a name is looked up the loop goes on, and a look-up that is given up is not waited for") {
  std::promise<void> server_is_back;
  const auto back = server_is_back.get_future().share();
  bool told = false, went_on = false;
  {
    Loop loop;
    std::optional<NameLookup> lookup;
    lookup.emplace(
        loop,
        [back] {
          back.wait();
          return Endpoint{};
        },
        [&](const NameLookup::Answer&) { told = true; });
    const auto turn = loop.after(milliseconds(1), [&] {
      went_on = true;
      lookup.reset();
      server_is_back.set_value();
    });
    const auto end = loop.after(milliseconds(50), [&] { loop.stop(); });
    loop.run();
  }
  CHECK(went_on);
  CHECK_FALSE(told);
}
