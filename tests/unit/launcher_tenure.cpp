#include <doctest/doctest.h>

#include "launcher/node/tenure.hpp"

using espalier::launcher::AnchorTenure;
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

TEST_CASE("a keeper of the anchor looks for its launcher, often at first") {
  AnchorTenure tenure(kStart);
  CHECK(tenure.pause(kStart + 29s) < 1s);
  CHECK(tenure.pause(kStart + 30s) == 5s);
}

TEST_CASE("a keeper of the anchor that never finds a launcher leaves after half an hour") {
  AnchorTenure tenure(kStart);
  tenure.looked(kStart + 1s, true);
  CHECK(tenure.stays(kStart + 29min));
  SUBCASE("whoever answers where it might be") {
    tenure.looked(kStart + 29min, false);
    CHECK_FALSE(tenure.stays(kStart + 30min));
  }
  SUBCASE("not while task 0 runs the program plain") {
    tenure.program_runs(kStart + 30min);
    CHECK(tenure.stays(kStart + 59min));
    CHECK_FALSE(tenure.stays(kStart + 60min));
  }
  SUBCASE("not when it has found one at last") {
    tenure.found();
    CHECK(tenure.stays(kStart + 24h));
  }
}

TEST_CASE("a keeper of the anchor whose connection broke looks for its launcher again, and often") {
  AnchorTenure tenure(kStart);
  tenure.found();
  tenure.lost(kStart + 1h);
  CHECK(tenure.pause(kStart + 1h + 29s) < 1s);
  tenure.looked(kStart + 1h, false);  // cut off
  CHECK(tenure.stays(kStart + 24h));
}

TEST_CASE("a keeper of the anchor leaves when nobody has listened for a minute where its launcher was") {
  AnchorTenure tenure(kStart);
  tenure.found();
  tenure.lost(kStart);
  tenure.looked(kStart + 1s, true);
  tenure.looked(kStart + 30s, true);
  CHECK(tenure.stays(kStart + 60s));
  CHECK_FALSE(tenure.stays(kStart + 61s));
  SUBCASE("not when it was cut off in between") {
    tenure.looked(kStart + 59s, false);
    tenure.looked(kStart + 60s, true);
    CHECK(tenure.stays(kStart + 119s));
  }
  SUBCASE("nor when it has found it again") {
    tenure.found();
    CHECK(tenure.stays(kStart + 24h));
  }
}
