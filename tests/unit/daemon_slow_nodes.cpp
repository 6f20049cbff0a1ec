// What is known of slow nodes, and for how long.
#include <doctest/doctest.h>

#include "planner/daemon/slow_nodes.hpp"

using namespace espalier;
using Found = std::map<std::string, double>;

TEST_CASE("a slow node is known to its user's jobs for an hour, also when the job that found it has left it or ended") {
  SlowNodes slow;
  slow.note(1000, 10, {{"n1", 1}, {"n2", 0.5}, {"n3", 0.79}}, 100);
  CHECK(slow.of(1000, 200) == Found{{"n2", 0.5}, {"n3", 0.79}});
  CHECK(slow.of(1001, 200).empty());
  slow.note(1000, 10, {{"n1", 1}, {"n4", 0.9}}, 300);  // it has left n2 and n3
  CHECK(slow.of(1000, 400) == Found{{"n2", 0.5}, {"n3", 0.79}});
  CHECK(slow.of(1000, 3699) == Found{{"n2", 0.5}, {"n3", 0.79}});
  CHECK(slow.of(1000, 3700).empty());
}

TEST_CASE("what a job finds replaces what it found before on the same node, and not what another job found") {
  SlowNodes slow;
  slow.note(1000, 10, {{"n1", 1}, {"n2", 0.5}}, 100);
  slow.note(1000, 11, {{"n2", 0.6}, {"n3", 1}}, 110);
  CHECK(slow.of(1000, 120) == Found{{"n2", 0.5}});
  CHECK(slow.all(120).at("n2").jobs == 2);
  slow.note(1000, 10, {{"n1", 1}, {"n2", 0.95}}, 130);
  CHECK(slow.of(1000, 140) == Found{{"n2", 0.6}});
  slow.note(1001, 12, {{"n2", 0.3}}, 150);
  CHECK(slow.of(1000, 160) == Found{{"n2", 0.6}});
  CHECK(slow.all(160).at("n2").share == 0.3);
  CHECK(slow.all(160).at("n2").jobs == 2);
}
