#include <doctest/doctest.h>

#include "launcher/tenure.hpp"

using espalier::launcher::Tenure;
using namespace std::chrono_literals;

namespace {
const Tenure::Time kStart{100s};
constexpr auto kBeat = 1000ms;
}  // namespace

TEST_CASE("a keeper that reaches no launcher leaves after three seconds") {
  const Tenure tenure(kStart, kBeat);
  CHECK(tenure.looks(kStart + 2900ms));
  CHECK_FALSE(tenure.looks(kStart + 3000ms));
}

TEST_CASE("a keeper that its launcher does not know yet tries for five seconds") {
  Tenure tenure(kStart, kBeat);
  tenure.connected(kStart + 1s);
  CHECK_FALSE(tenure.hears("refused", kStart + 1s));
  CHECK(tenure.looks(kStart + 4900ms));
  CHECK_FALSE(tenure.looks(kStart + 5s));
}

TEST_CASE("a keeper that was taken on leaves with its connection") {
  Tenure tenure(kStart, kBeat);
  tenure.connected(kStart);
  CHECK(tenure.looks(kStart));
  CHECK(tenure.hears("heartbeat", kStart + 100ms));
  CHECK_FALSE(tenure.looks(kStart + 200ms));
}

TEST_CASE("a keeper that is told to give back leaves, taken on or not") {
  Tenure tenure(kStart, kBeat);
  tenure.connected(kStart);
  CHECK_FALSE(tenure.hears("give_back", kStart));
  CHECK_FALSE(tenure.looks(kStart));
}

TEST_CASE("a keeper takes ten heartbeats of silence for the loss of its launcher") {
  Tenure tenure(kStart, kBeat);
  tenure.connected(kStart);
  CHECK(tenure.hears("heartbeat", kStart + 2s));
  CHECK_FALSE(tenure.turn(kStart + 12s).lost);
  CHECK(tenure.turn(kStart + 12001ms).lost);
}

TEST_CASE("a keeper sends a heartbeat when one is due, and Slurm's notice once, when somebody knows it") {
  Tenure tenure(kStart, kBeat);
  tenure.connected(kStart);
  tenure.signalled();
  CHECK_FALSE(tenure.turn(kStart + 500ms).notice);
  CHECK_FALSE(tenure.turn(kStart + 500ms).heartbeat);
  CHECK(tenure.hears("heartbeat", kStart + 600ms));
  CHECK(tenure.turn(kStart + 700ms).notice);
  CHECK_FALSE(tenure.turn(kStart + 800ms).notice);
  CHECK(tenure.turn(kStart + 1s).heartbeat);
  CHECK_FALSE(tenure.turn(kStart + 1900ms).heartbeat);
  CHECK(tenure.turn(kStart + 2s).heartbeat);
}
