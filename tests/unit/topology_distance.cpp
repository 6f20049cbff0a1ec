// The tree of switches: distances, ranks, size.
#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <random>

#include "planner/core/error.hpp"
#include "tests/unit/topology_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

const std::vector<std::int16_t> kFour(4, 0);

// The distance by the header's words, from the paths themselves.
int worded_distance(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto common = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  return static_cast<int>(std::max(a.size(), b.size())) - static_cast<int>(common) + 1;
}

}  // namespace

TEST_SUITE("topology") {
  TEST_CASE("distance counts switch levels") {
    Topology topology;
    const int a = topology.add_node("a", 0, kFour, {"core", "spine1", "leaf1"});
    const int b = topology.add_node("b", 0, kFour, {"core", "spine1", "leaf1"});
    const int c = topology.add_node("c", 0, kFour, {"core", "spine1", "leaf2"});
    const int d = topology.add_node("d", 0, kFour, {"core", "spine2", "leaf3"});
    const int e = topology.add_node("e", 0, kFour, {"other"});
    CHECK(topology.distance(a, a) == 0);
    CHECK(topology.distance(a, b) == 1);
    CHECK(topology.distance(a, c) == 2);
    CHECK(topology.distance(d, a) == 3);
    CHECK(topology.distance(e, a) == 4);
    CHECK(topology.find("c") == c);
    CHECK(topology.find("nobody") == -1);
    CHECK(topology.name(d) == "d");
  }

  TEST_CASE("nodes without switches share one leaf") {
    Topology topology;
    const int a = topology.add_node("a", 0, kFour, {});
    const int b = topology.add_node("b", 0, kFour, {});
    const int c = topology.add_node("c", 0, kFour, {"leaf"});
    CHECK(topology.distance(a, b) == 1);
    CHECK(topology.distance(a, c) == 2);
    CHECK(topology.rack(a) == topology.rack(b));
    CHECK(topology.rack(a) != topology.rack(c));
  }

  TEST_CASE("a switch of the same name under another parent is another switch") {
    Topology topology;
    const int a = topology.add_node("a", 0, kFour, {"left", "leaf1"});
    const int b = topology.add_node("b", 0, kFour, {"right", "leaf1"});
    CHECK(topology.distance(a, b) == 3);
  }

  TEST_CASE("a name given twice and a matrix that is not square are refused") {
    Topology topology;
    topology.add_node("a", 0, kFour, {});
    CHECK_THROWS_WITH_AS(topology.add_node("a", 0, kFour, {}),
                         "node a: named twice in the topology; node names must be unique", Error);
    CHECK_THROWS_AS(topology.set_inside(0, {2, {1, 2, 3}}), Error);
  }

  TEST_CASE("distances of random uneven trees are those of their paths") {
    std::mt19937 random(7);
    for (int round = 0; round < 50; ++round) {
      Topology topology;
      std::vector<std::vector<std::string>> paths;
      for (int i = 0; i < 30; ++i) {
        std::vector<std::string> path;
        for (auto left = random() % 4; left > 0; --left) path.push_back("s" + std::to_string(random() % 2));
        topology.add_node("n" + std::to_string(i), 0, kFour, path);
        paths.push_back(path);
      }
      for (int a = 0; a < 30; ++a)
        for (int b = 0; b < 30; ++b) {
          const int worded =
              a == b ? 0 : worded_distance(paths[static_cast<std::size_t>(a)], paths[static_cast<std::size_t>(b)]);
          REQUIRE(topology.distance(a, b) == worded);
        }
    }
  }

  TEST_CASE("rack and slot keep nodes of a switch together, whatever the order in which they came") {
    struct Given {
      std::string name;
      std::vector<std::string> path;
    };
    std::vector<Given> given;
    for (int i = 0; i < 48; ++i)
      given.push_back(
          {"n" + std::to_string(i), {"core", "spine" + std::to_string(i % 3), "leaf" + std::to_string(i % 12)}});
    std::vector<std::string> first_order;
    std::mt19937 random(3);
    for (int round = 0; round < 20; ++round) {
      Topology topology;
      for (const Given& one : given) topology.add_node(one.name, 0, kFour, one.path);
      std::vector<int> order(given.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
      std::sort(order.begin(), order.end(), [&](int a, int b) {
        return std::pair(topology.rack(a), topology.slot(a)) < std::pair(topology.rack(b), topology.slot(b));
      });
      std::vector<std::string> names;
      for (const int node : order) names.push_back(topology.name(node));
      if (round == 0) first_order = names;
      CHECK(names == first_order);
      // The outer two of three nodes in this order are never nearer than the inner ones.
      for (std::size_t i = 0; i + 2 < order.size(); ++i)
        for (std::size_t k = i + 2; k < order.size(); ++k)
          REQUIRE(topology.distance(order[i], order[k]) >=
                  std::max(topology.distance(order[i], order[i + 1]), topology.distance(order[k - 1], order[k])));
      std::shuffle(given.begin(), given.end(), random);
    }
    CHECK(std::vector<std::string>(first_order.begin(), first_order.begin() + 5) ==
          std::vector<std::string>{"n0", "n12", "n24", "n36", "n3"});
  }

  TEST_CASE("bandwidth: the inside of a kind, one rail between nodes, less per level") {
    Cluster cluster = regular_cluster(2, 2, 2, 4);
    cluster.hardware.kinds = {{100e6, 140e6, 10e6, 0}, {50e6, 60e6, 4e6, 0}};
    cluster.hardware.crossing = 0.5;
    const int other = cluster.topology.add_node("other", 1, kFour, {"core", "s0", "l0"});
    const auto between = [&](int a, int b) {
      return cluster.topology.effective_bandwidth(cluster.hardware, a, 0, b, 1);
    };
    CHECK(between(0, 0) == 100e6);
    CHECK(between(0, 1) == 10e6);
    CHECK(between(0, 2) == 5e6);
    CHECK(between(0, 4) == 2.5e6);
    CHECK(between(0, other) == 4e6);
    CHECK(between(other, 4) == 1e6);
    cluster.topology.set_inside(0, {2, {0, 7e6F, 8e6F, 0}});
    CHECK(between(0, 0) == 7e6);
    CHECK(cluster.topology.effective_bandwidth(cluster.hardware, 0, 1, 0, 0) == 8e6);
    // GPU 3 is outside the matrix.
    CHECK(cluster.topology.effective_bandwidth(cluster.hardware, 0, 0, 0, 3) == 100e6);
    CHECK(cluster.topology.inside(0)->gpus == 2);
    CHECK(cluster.topology.inside(1) == nullptr);
  }

#ifndef __SANITIZE_ADDRESS__
  TEST_CASE("16,384 GPUs take less than 256 KiB") {
    const auto before = ::mallinfo2().uordblks;
    const Cluster cluster = regular_cluster(8, 8, 32, 8);
    const auto after = ::mallinfo2().uordblks;
    CHECK(cluster.topology.nodes() == 2048);
    CHECK(after - before < 256 * 1024);
    CHECK(after - before > 2048 * sizeof(std::string));
  }
#endif
}
