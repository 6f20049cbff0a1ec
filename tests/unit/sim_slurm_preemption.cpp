#include <doctest/doctest.h>

#include "planner/sim/slurm_preemption.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;
using sim::preempted_for;

namespace {

// n1: 4 GPUs of the ordinary job 9. n2: 1 of extension 20, 2 of 22, 1 of job 9. n3: 2 of extension
// 21, 2 of 23.
ClusterView full() {
  ClusterView cluster;
  cluster.nodes = {node("n1", 4), node("n2", 4), node("n3", 4)};
  hold(cluster, {9, "n1", {0, 1, 2, 3}});
  hold(cluster, {20, "n2", {0}});
  hold(cluster, {22, "n2", {1, 2}});
  hold(cluster, {9, "n2", {3}});
  hold(cluster, {21, "n3", {0, 1}});
  hold(cluster, {23, "n3", {2, 3}});
  return cluster;
}
using Ids = std::vector<JobId>;
const Ids kOldest{20, 21, 22, 23}, kYoungest{23, 22, 21, 20};

}  // namespace

TEST_SUITE("sim: slurm's preemption") {
  TEST_CASE("the first extension in Slurm's order that makes room goes, however large it is") {
    CHECK(preempted_for(full(), 1, kOldest, {}) == Ids{20});
    CHECK(preempted_for(full(), 1, kYoungest, {}) == Ids{23});
    CHECK(preempted_for(full(), 2, kOldest, {}) == Ids{21});
  }

  TEST_CASE("those that left in vain on the way stay") {
    // 20, 21 and 22 had to leave until one node had three free GPUs. 21 is on another node.
    CHECK(preempted_for(full(), 3, kOldest, {}) == Ids{22, 20});
    CHECK(preempted_for(full(), 4, kOldest, {}) == Ids{23, 21});
  }

  TEST_CASE("what leaves already makes room too, and nothing goes where all of it would be in vain") {
    CHECK(preempted_for(full(), 2, kOldest, {21}).empty());
    CHECK(preempted_for(full(), 3, {20, 22, 23}, {21}) == Ids{22, 20});
    CHECK(preempted_for(full(), 4, {20, 22, 23}, {21}) == Ids{23});
    CHECK(preempted_for(full(), 8, kOldest, {}).empty());
    ClusterView idle = full();
    idle.nodes[0].gpu_owner.assign(4, 0);
    CHECK(preempted_for(idle, 4, kOldest, {}).empty());
  }
}
