// Waits between tries that fail.
#include "launcher/process/longer_waits.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

TEST_CASE("each wait is twice as long as the one before, up to the longest, until a try succeeds") {
  wire::Loop loop;
  LongerWaits waits(loop, wire::Loop::Milliseconds(1), wire::Loop::Milliseconds(3));
  const wire::Watch limit = loop.after(wire::Loop::Milliseconds(60'000), [&] { loop.stop(); });
  std::vector<long> seen;
  const auto once = [&] {
    seen.push_back(static_cast<long>(waits.next().count()));
    bool called = false;
    waits.wait([&] {
      called = true;
      loop.stop();
    });
    loop.run();
    CHECK(called);
  };
  for (int i = 0; i < 3; ++i) once();
  waits.begin_over();
  once();
  CHECK(seen == std::vector<long>{1, 2, 3, 1});
}
