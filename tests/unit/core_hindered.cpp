// Which waiting job the second base of a movable job keeps from starting.
#include "planner/core/schedule/hindered.hpp"

#include <doctest/doctest.h>

namespace {

using namespace espalier;

constexpr JobId kFirst = 7, kSecond = 8, kOther = 9;

NodeView node(const std::string& name, std::vector<JobId> owners) {
  NodeView view;
  view.name = name;
  view.gpu_type = "h100";
  view.gpu_owner = std::move(owners);
  return view;
}

// The second base has two GPUs of n2, on which two more are idle.
ClusterView cluster(int gpus, int nodes = 1, std::vector<std::string> only = {}) {
  ClusterView view;
  view.nodes = {node("n1", {kFirst, kFirst, kOther, 0}), node("n2", {kSecond, kSecond, 0, 0}),
                node("n3", {kOther, kOther, kOther, kOther})};
  WaitingJob waits;
  waits.id = 20;
  waits.gpus = gpus;
  waits.nodes = nodes;
  waits.only_nodes = std::move(only);
  view.waiting = {waits};
  return view;
}

TEST_CASE("a job that needs the second base's GPUs is hindered, and one that has room without them is not") {
  CHECK(hindered_by(kSecond, {}, cluster(4)) == 20);
  CHECK(hindered_by(kSecond, {}, cluster(3)) == 20);
  CHECK(hindered_by(kSecond, {}, cluster(2)) == 0);     // two are idle on n2
  CHECK(hindered_by(kSecond, {}, cluster(5)) == 0);     // three on each of two, and n1 lacks two
  CHECK(hindered_by(kSecond, {}, cluster(2, 2)) == 0);  // one on each of two
  CHECK(hindered_by(kSecond, {}, cluster(6, 2)) == 0);  // n1 lacks two more
  CHECK(hindered_by(kFirst, {}, cluster(6, 2)) == 0);   // n2 lacks one more
}

TEST_CASE("a job with --exclusive is hindered where the second base alone keeps a node from it") {
  ClusterView view = cluster(2);  // two are idle on n2
  view.waiting[0].whole_nodes = true;
  CHECK(hindered_by(kSecond, {}, view) == 20);
  view.nodes[1].cpu_jobs = true;
  CHECK(hindered_by(kSecond, {}, view) == 0);
}

TEST_CASE("a job that names no number of nodes needs as many as its GPUs take") {
  ClusterView view = cluster(8);
  CHECK(hindered_by(kSecond, {}, view) == 0);  // n2 has four, and no other node is idle
  view.nodes[0] = node("n1", {0, 0, 0, 0});
  CHECK(hindered_by(kSecond, {}, view) == 20);
  view.waiting[0].gpus = 12;
  CHECK(hindered_by(kSecond, {}, view) == 0);  // n3 is another job's
}

TEST_CASE("a job that may not use those nodes, or waited when the move began, is not hindered") {
  CHECK(hindered_by(kSecond, {}, cluster(4, 1, {"n1"})) == 0);
  CHECK(hindered_by(kSecond, {}, cluster(4, 1, {"n2"})) == 20);
  CHECK(hindered_by(kSecond, {20}, cluster(4)) == 0);
  CHECK(hindered_by(kSecond, {}, cluster(0)) == 0);
}

TEST_CASE("of many jobs that wait only the first are looked at") {
  ClusterView view = cluster(4);
  const WaitingJob big = view.waiting.front();
  WaitingJob other = big;
  other.gpus = 64;
  view.waiting.assign(63, other);
  view.waiting.push_back(big);
  CHECK(hindered_by(kSecond, {}, view) == 20);
  view.waiting.insert(view.waiting.begin(), other);
  CHECK(hindered_by(kSecond, {}, view) == 0);
}

}  // namespace
