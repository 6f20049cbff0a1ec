// The order of idle GPUs, compared with its definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "tests/unit/topology_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

using Lists = std::vector<NodeGpus>;

struct Affinity {
  double best = 0, inside = -1;  // -1: the job holds no GPU of the node
};

// Affinity by its definition, over all GPUs that the job holds.
Affinity affinity(const Cluster& cluster, const Lists& held, const GpuAt& gpu) {
  Affinity result;
  for (const NodeGpus& list : held)
    for (const int other : list.gpus) {
      const double reached =
          cluster.topology.effective_bandwidth(cluster.hardware, gpu.node, gpu.gpu, list.node, other);
      result.best = std::max(result.best, reached);
      if (list.node != gpu.node) continue;
      result.inside = std::max(result.inside, reached);
      const auto kind = static_cast<std::size_t>(cluster.topology.kind(gpu.node));
      result.best = std::max(result.best, cluster.hardware.kinds[kind].nic_bandwidth);
    }
  return result;
}

std::vector<GpuAt> defined_order(const Cluster& cluster, const Lists& held, const Lists& idle) {
  const Topology& t = cluster.topology;
  std::vector<GpuAt> order;
  for (const NodeGpus& list : idle)
    for (const std::int16_t gpu : list.gpus)
      order.push_back({list.node, gpu, t.gpu_types(list.node)[static_cast<std::size_t>(gpu)]});
  const auto key = [&](const GpuAt& gpu) {
    const Affinity near = affinity(cluster, held, gpu);
    return std::tuple(-near.best, -near.inside, t.rack(gpu.node), t.slot(gpu.node), gpu.gpu);
  };
  std::sort(order.begin(), order.end(), [&](const GpuAt& a, const GpuAt& b) { return key(a) < key(b); });
  return order;
}

std::vector<GpuAt> order_of(const Cluster& cluster, const Lists& held, const Lists& idle, int most = INT_MAX) {
  return affinity_order(cluster.hardware, cluster.topology, held, idle, most);
}

// Uneven trees, mixed kinds and types. PCIe in a node may be slower than a rail.
Cluster random_cluster(std::mt19937& random) {
  Cluster result;
  const auto pick = [&](unsigned n) { return static_cast<int>(random() % n); };
  result.hardware.types = {{"h100", 989}, {"a100", 312}};
  result.hardware.kinds = {{100e6, 140e6, 10e6, 0}, {40e6, 50e6, 3e6, 0}, {8e6, 8e6, 12e6, 0}};
  result.hardware.crossing = 0.25 + 0.25 * pick(4);
  for (int i = 0; i < 12; ++i) {
    std::vector<std::string> path;
    for (int level = pick(4); level > 0; --level) path.push_back("s" + std::to_string(pick(2)));
    std::vector<std::int16_t> types;
    for (int gpu = 0; gpu < 4; ++gpu) types.push_back(static_cast<std::int16_t>(pick(5) == 0));
    result.topology.add_node("n" + std::to_string(i), pick(3), types, path);
  }
  NodeInside inside{4, {}};
  for (int i = 0; i < 16; ++i) inside.bandwidth.push_back(static_cast<float>(1 + pick(4)) * 4e6F);
  result.topology.set_inside(2, inside);
  return result;
}

struct Deal {
  Lists held, idle;
};

// Gives every GPU to the job, to another job, or leaves it idle.
Deal random_deal(const Cluster& cluster, std::mt19937& random) {
  Deal deal;
  for (int node = 0; node < cluster.topology.nodes(); ++node) {
    NodeGpus held{node, {}}, idle{node, {}};
    const bool ours = random() % 3 == 0;
    for (std::int16_t gpu = 0; gpu < 4; ++gpu) {
      const auto who = random() % 3;
      if (who == 0 && ours) held.gpus.push_back(gpu);
      else if (who == 1) idle.gpus.push_back(gpu);
    }
    if (!held.gpus.empty()) deal.held.push_back(held);
    if (!idle.gpus.empty() || random() % 2) deal.idle.push_back(idle);
  }
  return deal;
}

}  // namespace

TEST_SUITE("topology") {
  TEST_CASE("idle GPUs are ordered by their affinity as it is defined") {
    std::mt19937 random(11);
    for (int round = 0; round < 400; ++round) {
      const Cluster cluster = random_cluster(random);
      const Deal deal = random_deal(cluster, random);
      const auto defined = defined_order(cluster, deal.held, deal.idle);
      REQUIRE(order_of(cluster, deal.held, deal.idle) == defined);
      const auto most = random() % (defined.size() + 2);
      const auto prefix = std::min(most, defined.size());
      REQUIRE(order_of(cluster, deal.held, deal.idle, static_cast<int>(most)) ==
              std::vector<GpuAt>(defined.begin(), defined.begin() + static_cast<std::ptrdiff_t>(prefix)));
    }
  }

  TEST_CASE("the order of the inputs does not matter") {
    std::mt19937 random(12);
    for (int round = 0; round < 100; ++round) {
      const Cluster cluster = random_cluster(random);
      Deal deal = random_deal(cluster, random);
      const auto order = order_of(cluster, deal.held, deal.idle);
      // An anchor and its extension may hold GPUs of one node. Then the node has two lists.
      if (!deal.held.empty() && deal.held[0].gpus.size() > 1) {
        deal.held.push_back({deal.held[0].node, {deal.held[0].gpus.back()}});
        deal.held[0].gpus.pop_back();
      }
      for (Lists* lists : {&deal.held, &deal.idle}) {
        std::shuffle(lists->begin(), lists->end(), random);
        for (NodeGpus& list : *lists) std::shuffle(list.gpus.begin(), list.gpus.end(), random);
      }
      REQUIRE(order_of(cluster, deal.held, deal.idle) == order);
    }
  }

  TEST_CASE("a job takes from its node, its leaf, its spine, then from afar") {
    const Cluster cluster = regular_cluster(2, 2, 2, 2);
    const auto order = order_of(cluster, {{2, {0}}}, {{0, {0}}, {2, {1}}, {3, {0, 1}}, {4, {0}}, {7, {1}}, {1, {1}}});
    CHECK(order == std::vector<GpuAt>{{2, 1, 0}, {3, 0, 0}, {3, 1, 0}, {0, 0, 0}, {1, 1, 0}, {4, 0, 0}, {7, 1, 0}});
  }

  TEST_CASE("GPUs of a job's own node come before those behind a rail, also where PCIe's all-reduces are slower") {
    Cluster cluster = regular_cluster(1, 2, 2, 4);
    cluster.hardware.kinds = {{7.9e6, 11e6, 10e6, 0}};
    const Lists idle{{0, {0, 1, 2, 3}}, {1, {0, 2, 3}}, {3, {0}}};
    const std::vector<GpuAt> own_first{{1, 0, 0}, {1, 2, 0}, {1, 3, 0}, {0, 0, 0}, {0, 1, 0}};
    for (const AffinityTies ties : {AffinityTies::by_place, AffinityTies::whole_first})
      CHECK(affinity_order(cluster.hardware, cluster.topology, Lists{{1, {1}}}, idle, 5, ties) == own_first);
    // Of a node's GPUs that the rail makes equal, those of the same NUMA node come first.
    NodeInside inside{4, std::vector<float>(16, 7.9e6F)};
    for (const std::size_t pair : {7U, 13U}) inside.bandwidth[pair] = 9e6F;
    cluster.topology.set_inside(0, inside);
    CHECK(order_of(cluster, {{1, {1}}}, idle, 4) == std::vector<GpuAt>{{1, 3, 0}, {1, 0, 0}, {1, 2, 0}, {0, 0, 0}});
  }

  TEST_CASE("a job that holds nothing sees GPUs by rack, node and index") {
    const Cluster cluster = regular_cluster(2, 2, 2, 2);
    const auto order = order_of(cluster, {}, {{5, {1, 0}}, {1, {0}}, {3, {1}}});
    CHECK(order == std::vector<GpuAt>{{1, 0, 0}, {3, 1, 0}, {5, 0, 0}, {5, 1, 0}});
    CHECK(order_of(cluster, {{1, {0}}}, {}).empty());
  }

  TEST_CASE("a unit is a sixteenth of the job, at most eight, a power of two") {
    CHECK(unit_size(1) == 1);
    CHECK(unit_size(16) == 1);
    CHECK(unit_size(17) == 2);
    CHECK(unit_size(48) == 2);
    CHECK(unit_size(64) == 4);
    CHECK(unit_size(112) == 4);
    CHECK(unit_size(113) == 8);
    CHECK(unit_size(4096) == 8);
  }

  TEST_CASE("units have one node and one type, the rest of a node is a smaller one") {
    const std::vector<GpuAt> order{{0, 0, 0}, {0, 1, 1}, {0, 2, 0}, {0, 3, 0}, {0, 4, 1},
                                   {2, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 5, 0}};
    using Units = std::vector<AffinityUnit>;
    CHECK(cut_units(order, 2) ==
          Units{{0, 0, {0, 2}}, {0, 1, {1, 4}}, {0, 0, {3}}, {2, 0, {0}}, {1, 0, {0, 1}}, {0, 0, {5}}});
    CHECK(cut_units(order, 8) == Units{{0, 0, {0, 2, 3}}, {0, 1, {1, 4}}, {2, 0, {0}}, {1, 0, {0, 1}}, {0, 0, {5}}});
    CHECK(cut_units(order, 2, 7) == Units{{0, 0, {0, 2}}, {0, 1, {1, 4}}, {0, 0, {3}}, {2, 0, {0}}, {1, 0, {0}}});
    CHECK(cut_units(order, 2, 0).empty());
  }

  TEST_CASE("16,384 GPUs are ordered for a job on 32 nodes without looking at pairs of GPUs") {
    const Cluster cluster = regular_cluster(8, 8, 32, 8);
    Lists held, idle;
    for (int node = 0; node < cluster.topology.nodes(); ++node) {
      const bool ours = node % 64 == 5;
      if (ours) held.push_back({node, {0, 1, 2, 3}});
      idle.push_back(
          {node, ours ? std::vector<std::int16_t>{4, 5, 6, 7} : std::vector<std::int16_t>{0, 1, 2, 3, 4, 5, 6, 7}});
    }
    REQUIRE(held.size() == 32);
    std::vector<double> milliseconds;
    for (int i = 0; i < 21; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const auto order = order_of(cluster, held, idle);
      milliseconds.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
      REQUIRE(order.size() == 16384 - 128);
      REQUIRE(order[0].node == 5);
      REQUIRE(order[128].node == 0);  // the first is on a node of the job
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    MESSAGE("median ", milliseconds[10], " ms");
    CHECK(milliseconds[0] < 20);  // comparing pairs of GPUs takes longer on any machine
  }
}
