#include "launcher/world/start_gate.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/loop_until.hpp"

using namespace espalier;
using namespace espalier::launcher;
using std::chrono::milliseconds;

namespace {

ServerId server(int number) { return {"n" + std::to_string(number), 7}; }

// A gate for two, and what has gone through it.
struct Gate {
  wire::Loop loop;
  std::vector<ServerId> started;
  StartGate gate;

  explicit Gate(milliseconds limit = std::chrono::seconds(60))
      : gate(loop, 2, limit, [this](const ServerId& id) { started.push_back(id); }) {
    for (int number = 1; number <= 5; ++number) gate.ask(server(number));
  }
  bool starts(std::size_t count) {
    return test::until(
        loop, [&] { return started.size() == count; }, std::chrono::seconds(10));
  }
};

}  // namespace

TEST_CASE("two go through the gate, and each that is over lets the next one in") {
  Gate gate;
  CHECK(gate.started == std::vector<ServerId>{server(1), server(2)});
  CHECK(gate.gate.holds(server(3)));
  gate.gate.over(server(2));
  REQUIRE(gate.starts(3));
  CHECK(gate.started.back() == server(3));
  CHECK_FALSE(gate.gate.holds(server(3)));
  gate.gate.over(server(1));
  gate.gate.over(server(3));
  CHECK(gate.starts(5));
}

TEST_CASE("one that asks twice goes through once, and one that is not wanted any more never") {
  Gate gate;
  gate.gate.ask(server(3));
  gate.gate.over(server(4));
  for (const int number : {1, 2, 3, 5}) gate.gate.over(server(number));
  gate.gate.ask(server(5));
  test::until(
      gate.loop, [] { return false; }, milliseconds(60));
  CHECK(gate.started == std::vector<ServerId>{server(1), server(2), server(5)});
}

TEST_CASE("who neither comes nor ends holds the gate for a while only") {
  Gate gate(milliseconds(30));
  CHECK(gate.starts(5));
}

TEST_CASE("a closed gate lets nobody in") {
  Gate gate(milliseconds(30));
  gate.gate.close();
  gate.gate.over(server(1));
  gate.gate.ask(server(6));
  test::until(
      gate.loop, [] { return false; }, milliseconds(100));
  CHECK(gate.started.size() == 2);
}
