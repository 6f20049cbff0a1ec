// Islands: GPUs of a node that reach its other GPUs as those of another node.
#include <doctest/doctest.h>

#include <array>

#include "tests/unit/topology_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_SUITE("topology") {
  TEST_CASE("an island is a node of its own under the leaf switch of the node that it is part of") {
    Cluster cluster = regular_cluster(1, 2, 2, 4);  // n0 n1 | n2 n3
    Topology& topology = cluster.topology;
    const int island = topology.add_island(1, std::array{1, 2});
    CHECK(island == 4);
    CHECK(topology.nodes() == 5);
    CHECK(topology.find("n1") == 1);
    for (const int gpu : {0, 3, 9}) CHECK(topology.find("n1", gpu) == 1);
    for (const int gpu : {1, 2}) CHECK(topology.find("n1", gpu) == island);
    CHECK(topology.find("n0", 1) == 0);
    CHECK(topology.find("n9", 1) == -1);
    CHECK(topology.whole(island) == 1);
    CHECK(topology.whole(3) == 3);
    CHECK(topology.name(island) == "n1");
    CHECK(topology.kind(island) == topology.kind(1));
    CHECK(topology.gpu_types(island).size() == 4);
    CHECK(topology.rack(island) == topology.rack(1));
    CHECK(topology.slot(island) == topology.slot(1));
    CHECK(topology.distance(island, island) == 0);
    CHECK(topology.distance(island, 1) == 1);
    CHECK(topology.distance(island, 0) == 1);
    CHECK(topology.distance(island, 2) == topology.distance(1, 2));
    for (const int gpu : {0, 1, 2, 3}) {
      CHECK(topology.has(island, gpu) == (gpu == 1 || gpu == 2));
      CHECK(topology.has(1, gpu) == (gpu == 0 || gpu == 3));
      CHECK(topology.has(2, gpu));
    }
    CHECK_FALSE(topology.has(1, 4));
    CHECK_FALSE(topology.has(1, -1));
  }

  TEST_CASE("inside an island GPUs have the node's links, and a rail to the rest of the node") {
    Cluster cluster = regular_cluster(1, 1, 2, 4);
    const int island = cluster.topology.add_island(0, std::array{2, 3});
    const NodeKind& kind = cluster.hardware.kinds[0];
    const auto bandwidth = [&](int node_a, int gpu_a, int node_b, int gpu_b) {
      return cluster.topology.effective_bandwidth(cluster.hardware, node_a, gpu_a, node_b, gpu_b);
    };
    CHECK(bandwidth(island, 2, island, 3) == kind.tp_bandwidth);
    CHECK(bandwidth(0, 0, 0, 1) == kind.tp_bandwidth);
    CHECK(bandwidth(0, 1, island, 2) == kind.nic_bandwidth);
    CHECK(bandwidth(1, 0, island, 2) == kind.nic_bandwidth);
  }

  TEST_CASE("a copy's islands are its own, and what is added to one is not in the other") {
    Cluster cluster = regular_cluster(1, 1, 2, 4);
    Topology copy = cluster.topology;
    copy.add_island(0, std::array{0});
    CHECK(cluster.topology.nodes() == 2);
    CHECK(cluster.topology.find("n0", 0) == 0);
    cluster.topology.add_node("n2", 0, {0, 0}, {"core", "s0", "l0"});
    CHECK(cluster.topology.nodes() == 3);
    CHECK(copy.find("n2") == -1);
    CHECK(copy.find("n0", 0) == 2);
  }

  TEST_CASE(
      "of GPUs equally near, whole nodes come first, as many as the job can take; then the smallest that is enough") {
    Cluster cluster = regular_cluster(1, 1, 5, 8);
    // The job's island is half of n0. As near as its other half: 1 of n1, 6 of n2, 8 of n3, 4 of n4.
    const int island = cluster.topology.add_island(0, std::array{0, 1, 2, 3});
    const std::vector<NodeGpus> held{{island, {0, 1, 2, 3}}};
    const std::vector<NodeGpus> idle{
        {0, {4, 5, 6, 7}}, {1, {3}}, {2, {0, 1, 2, 3, 4, 5}}, {3, {0, 1, 2, 3, 4, 5, 6, 7}}, {4, {0, 1, 2, 3}}};
    const auto nodes = [&](int most, AffinityTies ties) {
      std::vector<int> order;
      for (const GpuAt& gpu : affinity_order(cluster.hardware, cluster.topology, held, idle, most, ties))
        if (order.empty() || order.back() != gpu.node) order.push_back(gpu.node);
      return order;
    };
    CHECK(nodes(100, AffinityTies::whole_first) == std::vector{3, 2, 0, 4, 1});
    CHECK(nodes(6, AffinityTies::whole_first) == std::vector{2});
    CHECK(nodes(7, AffinityTies::whole_first) == std::vector{3});
    CHECK(nodes(4, AffinityTies::whole_first) == std::vector{0});  // beside it rather than on n4
    CHECK(nodes(1, AffinityTies::whole_first) == std::vector{1});
    CHECK(nodes(100, AffinityTies::by_place) == std::vector{0, 1, 2, 3, 4});
  }

  TEST_CASE("of leaf switches equally near, that with the largest whole node comes first") {
    Cluster cluster = regular_cluster(1, 3, 2, 4);  // n0 n1 | n2 n3 | n4 n5
    const std::vector<NodeGpus> held{{0, {0, 1, 2, 3}}};
    const std::vector<NodeGpus> idle{{1, {0}}, {2, {0, 1}}, {3, {0}}, {4, {0}}, {5, {0, 1, 2}}};
    std::vector<int> order;
    for (const GpuAt& gpu :
         affinity_order(cluster.hardware, cluster.topology, held, idle, 100, AffinityTies::whole_first))
      if (order.empty() || order.back() != gpu.node) order.push_back(gpu.node);
    CHECK(order == std::vector{1, 5, 4, 2, 3});  // nearness counts before size
  }

  TEST_CASE("whole nodes first is the same order by affinity, of any GPUs and nodes") {
    std::mt19937 random(14);
    for (int round = 0; round < 200; ++round) {
      Cluster cluster = regular_cluster(2, 2, 3, 4);
      std::vector<NodeGpus> held{{0, {0, 1}}}, idle;
      if (random() % 2 == 0) held[0].node = cluster.topology.add_island(0, std::array{0, 1});
      for (std::int32_t node = 0; node < 12; ++node) {
        NodeGpus one{node, {}};
        for (std::int16_t gpu = node == 0 ? 2 : 0; gpu < 4; ++gpu)
          if (random() % 2 == 0) one.gpus.push_back(gpu);
        if (!one.gpus.empty()) idle.push_back(one);
      }
      const auto order = [&](AffinityTies ties, int most) {
        return affinity_order(cluster.hardware, cluster.topology, held, idle, most, ties);
      };
      const auto affinity = [&](const GpuAt& gpu) {
        double best = 0;
        for (const int own : held[0].gpus)
          best = std::max(best,
                          cluster.topology.effective_bandwidth(cluster.hardware, gpu.node, gpu.gpu, held[0].node, own));
        return best;
      };
      const int most = static_cast<int>(random() % 40);
      const auto whole = order(AffinityTies::whole_first, most), printed = order(AffinityTies::by_place, most);
      REQUIRE(whole.size() == printed.size());
      for (std::size_t i = 0; i < whole.size(); ++i) CHECK(affinity(whole[i]) == affinity(printed[i]));
    }
  }
}
