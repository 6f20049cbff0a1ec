// A cluster from slurmctld's answers.
#include <doctest/doctest.h>

#include "planner/cli/live_cluster.hpp"
#include "planner/core/error.hpp"

using namespace espalier;

namespace {

// slurmctld's answers. They point into `texts`, which outlives them.
struct Answers {
  void add_node(std::string name, std::string gres) { texts.push_back({std::move(name), std::move(gres)}); }
  cli::PlanCluster read() {
    std::vector<node_info_t> nodes(texts.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].name = texts[i][0].data();
      nodes[i].gres = texts[i][1].data();
    }
    node_info_msg_t node_answer{};
    node_answer.record_count = static_cast<std::uint32_t>(nodes.size());
    node_answer.node_array = nodes.data();
    return cli::cluster_of(node_answer, topology);
  }

  std::vector<std::vector<std::string>> texts;
  std::string topology;
};

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("a live cluster: nodes with GPUs, all of them idle, and their switches from the root down") {
    Answers answers;
    answers.add_node("n1", "gpu:h100:8");
    answers.add_node("login", "");
    answers.add_node("n2", "gpu:a100:4,shard:16");
    answers.topology =
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n1\n"
        "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n2,login\n"
        "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n1,n2,login Switches=leaf[1-2]\n";
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
