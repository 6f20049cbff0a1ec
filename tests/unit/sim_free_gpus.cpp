// Where basic demands are placed.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/sim/free_gpus.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

void occupy(ClusterView& cluster, const std::string& node, int gpus, JobId owner = 1) {
  for (NodeView& view : cluster.nodes)
    for (std::size_t gpu = 0; view.name == node && gpu < view.gpu_owner.size(); ++gpu)
      if (view.gpu_owner[gpu] == 0 && gpus-- > 0) view.gpu_owner[gpu] = owner;
}

std::vector<std::string> nodes(const std::optional<std::vector<GpuId>>& gpus) {
  std::vector<std::string> names;
  for (const GpuId& gpu : gpus.value())
    if (names.empty() || names.back() != gpu.node) names.push_back(gpu.node);
  return names;
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("within a node: the fullest that has room, then the first") {
    ClusterView cluster = cluster_of(3, 8);
    occupy(cluster, "n2", 5);
    occupy(cluster, "n3", 3);
    sim::FreeGpus free(cluster);
    CHECK(free.count() == 16);
    CHECK(free.take(2) == std::vector<GpuId>{{"n2", 5}, {"n2", 6}});
    CHECK(nodes(free.take(2)) == std::vector<std::string>{"n3"});
    CHECK(nodes(free.take(8)) == std::vector<std::string>{"n1"});
    CHECK(!free.take(4));
    CHECK(free.count() == 4);
  }

  TEST_CASE("what extensions hold is not free, and makes a node no fuller") {
    ClusterView cluster = cluster_of(2, 8);
    occupy(cluster, "n1", 1, 1);
    occupy(cluster, "n1", 6, 50);
    occupy(cluster, "n2", 6, 2);
    const auto extension = [](JobId owner) { return owner == 50; };
    CHECK(nodes(sim::FreeGpus(cluster).take(1)) == std::vector<std::string>{"n1"});
    CHECK(nodes(sim::FreeGpus(cluster, {}, extension).take(1)) == std::vector<std::string>{"n2"});
    CHECK(!sim::FreeGpus(cluster, {}, extension).take(3));
    CHECK(nodes(sim::FreeGpus(cluster, extension).take(3)) == std::vector<std::string>{"n1"});
  }

  TEST_CASE("several nodes: whole ones, of the rack with the fewest that suffice") {
    ClusterView cluster = cluster_of(9, 8, 4);  // racks n1-n4, n5-n8, n9
    occupy(cluster, "n1", 1);
    occupy(cluster, "n2", 1);
    sim::FreeGpus free(cluster);
    CHECK(nodes(free.take(16)) == std::vector<std::string>{"n3", "n4"});
    CHECK(nodes(free.take(40)) == std::vector<std::string>{"n5", "n6", "n7", "n8", "n9"});
    CHECK(!free.take(16));
    CHECK(free.take(7));
  }

  TEST_CASE("what is no multiple of a node ends on one node more") {
    ClusterView cluster = cluster_of(3, 8);
    occupy(cluster, "n2", 3);
    sim::FreeGpus free(cluster);
    const auto gpus = free.take(12);
    CHECK(nodes(gpus) == std::vector<std::string>{"n1", "n2"});
    CHECK(gpus->size() == 12);
  }

  TEST_CASE("where no node is whole, equal parts of as few as can hold it") {
    ClusterView cluster = cluster_of(3, 8);
    for (const char* name : {"n1", "n2", "n3"}) occupy(cluster, name, 2);
    sim::FreeGpus free(cluster);
    CHECK(!free.take(14));
    const auto taken = free.take(11);
    REQUIRE(taken);
    CHECK(std::count_if(taken->begin(), taken->end(), [](const GpuId& gpu) { return gpu.node == "n1"; }) == 6);
    CHECK(std::count_if(taken->begin(), taken->end(), [](const GpuId& gpu) { return gpu.node == "n2"; }) == 5);
    CHECK(free.count() == 7);
  }

  TEST_CASE("types are not mixed, and can be chosen") {
    ClusterView cluster = cluster_of(2, 8);
    cluster.nodes[1].gpu_type = "a100";
    CHECK(!sim::FreeGpus(cluster).take(16));
    CHECK(nodes(sim::FreeGpus(cluster).take(4, "a100")) == std::vector<std::string>{"n2"});
    CHECK(!sim::FreeGpus(cluster).take(4, "v100"));
  }

  TEST_CASE("what is given back can be taken again, and only free GPUs can be taken by name") {
    const ClusterView cluster = cluster_of(1, 4);
    sim::FreeGpus free(cluster);
    const auto all = free.take(4);
    CHECK(!free.take_these({{"n1", 2}}));
    free.give_back({{"n1", 2}});
    free.give_back({{"n1", 2}});
    CHECK(free.count() == 1);
    CHECK(free.take_these({{"n1", 2}}));
    CHECK(!free.take_these({{"n7", 0}}));
    CHECK(free.count() == 0);
  }

  TEST_CASE("nodes that are not usable give nothing") {
    ClusterView cluster = cluster_of(1, 4);
    cluster.nodes[0].usable = false;
    CHECK(sim::FreeGpus(cluster).count() == 0);
  }
}
