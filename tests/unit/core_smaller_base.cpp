// Where a movable job may start while its base waits.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/schedule/smaller_base.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

constexpr JobId kBase = 100;

// Base 100 waits for four GPUs of one node. Job 1 holds two GPUs of n1, job 2 all of n2.
struct Waits {
  ClusterView cluster;
  WaitingBase base{kBase, 1, true, {}};

  Waits() {
    cluster.nodes = {node("n1", 4), node("n2", 4)};
    hold(cluster, {1, "n1", {0, 1}});
    hold(cluster, {2, "n2", {0, 1, 2, 3}});
    wait(kBase, 4);
  }
  WaitingJob& wait(JobId id, int gpus, int nodes = 1) {
    WaitingJob& job = cluster.waiting.emplace_back();
    job.id = id;
    job.gpus = gpus;
    job.nodes = nodes;
    return job;
  }
  // "n1:2 n3:2"; or why there is none.
  std::string found() const {
    std::string text;
    try {
      for (const ExtensionRequest& part : smaller_base(base, cluster)) {
        CHECK(part.lease_minutes == 0);
        text += (text.empty() ? "" : " ") + part.node + ":" + std::to_string(part.gpus);
      }
    } catch (const Error& error) {
      return error.what();
    }
    return text;
  }
};

constexpr const char* kTooFew =
    "base 100: there are not 1 idle GPUs with as many on each node that it could leave again and no other waiting job "
    "could use";

}  // namespace

TEST_CASE("a smaller base gets all idle GPUs of a node") { CHECK(Waits().found() == "n1:2"); }

TEST_CASE("a smaller base gets the most GPUs, on the fewest nodes, fewer than the base that waits") {
  Waits one;
  one.cluster.nodes.push_back(node("n3", 4));
  one.cluster.nodes.push_back(node("n4", 4));
  hold(one.cluster, {3, "n3", {0, 1, 2}});
  hold(one.cluster, {4, "n4", {0, 1, 2}});
  CHECK(one.found() == "n1:1 n3:1 n4:1");
  one.cluster.waiting.front().gpus = 3;
  CHECK(one.found() == "n1:2");
}

TEST_CASE("a smaller base has at least MIN GPUs") {
  Waits one;
  one.base.least = 2;
  CHECK(one.found() == "n1:2");
  one.base.least = 3;
  CHECK(one.found() == std::string(kTooFew).replace(24, 1, "3"));
}

TEST_CASE("a smaller base leaves GPUs to every other job that waits and could use them") {
  Waits one;
  one.wait(5, 4).only_nodes = {"n2"};
  CHECK(one.found() == "n1:2");
  SUBCASE("on this node") { one.wait(6, 8).only_nodes = {"n1"}; }
  SUBCASE("anywhere") { one.wait(6, 1); }
  CHECK(one.found() == kTooFew);
}

TEST_CASE("a smaller base does not stand in the way of the base that waits") {
  Waits one;
  SUBCASE("that needs all GPUs") {
    one.cluster.waiting.front().gpus = 8;
    one.cluster.waiting.front().nodes = 2;
  }
  SUBCASE("that has one node only") { one.cluster.waiting.front().only_nodes = {"n1"}; }
  SUBCASE("whose other node is down") { one.cluster.find("n2")->usable = false; }
  CHECK(one.found() == kTooFew);
}

TEST_CASE("a smaller base on a part of a node leaves the rest to the base that waits") {
  Waits one;
  one.cluster.waiting.front().gpus = 2;  // n1 has room for both
  one.cluster.find("n2")->usable = false;
  CHECK(one.found() == "n1:1");
}

TEST_CASE("a smaller base has GPUs of one type, and a bit-identical training stays on its type") {
  Waits one;
  one.cluster.nodes.push_back(node("n3", 4, "leaf1", "a100"));
  CHECK(
      one.found() ==
      "base 100: may get GPUs of another type than those that are idle, and accuracy=bitwise keeps the type; name one "
      "type with types=");
  one.base.one_type = false;
  CHECK(one.found() == "n3:3");
  one.base.types = {"h100"};
  one.base.one_type = true;
  CHECK(one.found() == "n1:2");
}

TEST_CASE("a bit-identical training waits where its base may still be granted on GPUs that are drained now") {
  Waits one;
  one.cluster.nodes.push_back(node("n3", 4, "leaf1", "a100"));
  one.cluster.find("n3")->usable = false;
  CHECK(one.found().find("base 100: may get GPUs of another type") == 0);
  one.cluster.waiting.front().only_nodes = {"n1", "n2"};
  CHECK(one.found() == "n1:2");
}

TEST_CASE("Slurm has its try at a base first, and one that waits for something else is left alone") {
  Waits one;
  one.cluster.waiting.front().left_to_slurm = true;
  CHECK(one.found() == "base 100: Slurm may start it in a moment");
  one.cluster.waiting.clear();
  CHECK(one.found() == "base 100: does not wait for GPUs");
}

TEST_CASE("a smaller base does not go to nodes that are unhealthy") {
  Waits one;
  one.cluster.find("n1")->unhealthy = "ECC errors";
  CHECK(one.found() == kTooFew);
}

TEST_CASE("a base for which extensions give GPUs back has room, and no smaller one is needed") {
  Waits one;
  one.cluster.waiting.front().priority = 1;
  PlanningInput input;
  const auto has_room = [&] {
    input.cluster = one.cluster;
    return gets_room(kBase, input.cluster, serve_waiting(input, {}));
  };
  CHECK_FALSE(has_room());  // job 2 keeps n2
  ElasticJob grown = job(1, "n1", {0, 1});
  extend(grown, 60, "n2", {0, 1, 2, 3});
  hold(one.cluster, {60, "n2", {0, 1, 2, 3}});
  input.jobs = {grown};
  input.extensions = {60};
  CHECK(has_room());
  SUBCASE("with --exclusive also where GPUs are idle beside them") {
    one.cluster.waiting.front().whole_nodes = true;
    one.cluster.waiting.front().gpus = 1;
    input.jobs.front().extensions.front().gpus = {0, 1};
    for (const int index : {2, 3}) one.cluster.find("n2")->gpu_owner[static_cast<std::size_t>(index)] = 0;
    CHECK(has_room());
  }
  SUBCASE("also while they go") {
    one.cluster.find("n2")->freeing = {0, 1, 2, 3};
    CHECK(has_room());
  }
  SUBCASE("not for one that comes first") {
    one.wait(5, 4).priority = 2;
    CHECK_FALSE(has_room());
  }
  SUBCASE("not where Slurm leaves enough idle GPUs to it: it has reasons of its own") {
    hold(one.cluster, {0, "n2", {0, 1, 2, 3}});
    CHECK_FALSE(has_room());
  }
  SUBCASE("not where it may not go to these nodes") {
    one.cluster.waiting.front().only_nodes = {"n1"};
    CHECK_FALSE(has_room());
  }
  SUBCASE("not where it does not wait for GPUs") {
    one.cluster.waiting.clear();
    CHECK_FALSE(has_room());
  }
  SUBCASE("not where Slurm starts it later all the same") {
    one.cluster.waiting.front().starts_later = true;
    CHECK_FALSE(has_room());
  }
}
