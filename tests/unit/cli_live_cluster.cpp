// A cluster from slurmctld's answers.
#include <doctest/doctest.h>

#include "planner/cli/live_cluster.hpp"
#include "planner/core/error.hpp"

using namespace espalier;

namespace {

// slurmctld's answers. They point into `texts`, which outlives them.
struct Answers {
  void add_node(std::string name, std::string gres) { texts.push_back({std::move(name), std::move(gres)}); }
  void add_switch(std::string name, std::uint16_t level, std::string nodes, std::string switches) {
    texts_of_switches.push_back({std::move(name), std::move(nodes), std::move(switches)});
    levels.push_back(level);
  }
  cli::PlanCluster read() {
    std::vector<node_info_t> nodes(texts.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].name = texts[i][0].data();
      nodes[i].gres = texts[i][1].data();
    }
    std::vector<topo_info_t> switches(levels.size());
    for (std::size_t i = 0; i < switches.size(); ++i) {
      switches[i].level = levels[i];
      switches[i].name = texts_of_switches[i][0].data();
      switches[i].nodes = texts_of_switches[i][1].data();
      switches[i].switches = texts_of_switches[i][2].data();
    }
    node_info_msg_t node_answer{};
    node_answer.record_count = static_cast<std::uint32_t>(nodes.size());
    node_answer.node_array = nodes.data();
    topo_info_response_msg_t topology{};
    topology.record_count = static_cast<std::uint32_t>(switches.size());
    topology.topo_array = switches.data();
    return cli::cluster_of(node_answer, topology);
  }

  std::vector<std::vector<std::string>> texts, texts_of_switches;
  std::vector<std::uint16_t> levels;
};

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("a live cluster: nodes with GPUs, all of them idle, and their switches from the root down") {
    Answers answers;
    answers.add_node("n1", "gpu:h100:8");
    answers.add_node("login", "");
    answers.add_node("n2", "gpu:a100:4,shard:16");
    answers.add_switch("leaf1", 0, "n1", "");
    answers.add_switch("leaf2", 0, "n2,login", "");
    answers.add_switch("spine", 1, "n1,n2,login", "leaf[1-2]");
    const auto cluster = answers.read();
    REQUIRE(cluster.view.nodes.size() == 2);
    CHECK(cluster.view.nodes[0].name == "n1");
    CHECK(cluster.view.nodes[0].gpu_type == "h100");
    CHECK(cluster.view.nodes[0].gpu_owner == std::vector<JobId>(8, 0));
    CHECK(cluster.view.nodes[0].switches == std::vector<std::string>{"spine", "leaf1"});
    CHECK(cluster.view.nodes[1].gpu_owner.size() == 4);
    CHECK(cluster.view.nodes[1].switches == std::vector<std::string>{"spine", "leaf2"});
  }

  TEST_CASE("a live cluster without GPUs is no cluster to simulate") {
    Answers answers;
    answers.add_node("login", "");
    CHECK_THROWS_WITH_AS(answers.read(), "slurm: no node has GPUs; describe the cluster in a file instead", Error);
  }
}
