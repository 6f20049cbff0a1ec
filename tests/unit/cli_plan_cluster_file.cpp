// The cluster file of `espalier plan`.
#include <doctest/doctest.h>

#include "planner/cli/plan_cluster_file.hpp"
#include "tests/unit/plan_files.hpp"
#include "tests/unit/topology_xml.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;

namespace {

std::string refusal(const std::string& text) {
  const Folder folder;
  return complaint(folder, [&] { read_plan_cluster(folder.write("c.toml", text)); });
}

const std::string kNodes = "[[nodes]]\nname = \"n[1-2]\"\ngpus = 8\ngpu_type = \"h100\"\n";  // four lines

std::vector<std::string> names(const PlanCluster& cluster) {
  std::vector<std::string> result;
  for (const NodeView& node : cluster.view.nodes) result.push_back(node.name);
  return result;
}

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("every key of a cluster file is read") {
    const Folder folder;
    folder.write("node.xml", test::made_xml(2));
    const PlanCluster cluster = read_plan_cluster(folder.write(
        "c.toml", kNodes +
                      "switches = [\"spine\", \"rack1\"]\nhwloc = \"node.xml\"\n"
                      "[[nodes]]\nname = \"m7,m3\"\ngpus = 4\ngpu_type = \"cerebro\"\n"
                      "[network]\ntp_gb_s = 300\ndp_gb_s = 250\nnic_gb_s = 40\nnics = 4\ncrossing = 0.7\nv0_mb = 2\n"
                      "v_sat_mb = 64\n[gpu.cerebro]\ntflops = 500\nmemory_gb = 32\nmemory_bandwidth_gb_s = 2000\n"));
    CHECK(names(cluster) == std::vector<std::string>{"n1", "n2", "m7", "m3"});
    CHECK(cluster.view.nodes[1].gpu_type == "h100");
    CHECK(cluster.view.nodes[1].gpu_owner == std::vector<JobId>(8, 0));
    CHECK(cluster.view.nodes[1].switches == std::vector<std::string>{"spine", "rack1"});
    CHECK(cluster.view.nodes[3].gpu_owner.size() == 4);
    CHECK(cluster.view.nodes[3].switches.empty());
    REQUIRE(cluster.reports.size() == 2);
    CHECK(cluster.reports.at("n2").inside.gpus == 8);
    HardwareOverrides expected{{{"cerebro", {500, 32, 2000}}}, 300, 250, 40, 4, 0.7, 2, 64};
    CHECK(cluster.hardware == expected);
  }

  TEST_CASE("figures of a GPU type that no node has are noted, also if only the case differs") {
    const Folder folder;
    const auto notes = [&](const std::string& type) {
      return read_plan_cluster(folder.write("c.toml", kNodes + "[gpu." + type + "]\nmemory_gb = 40\n")).notes;
    };
    CHECK(notes("h100").empty());
    CHECK(notes("H100") == std::vector<std::string>{"[gpu.H100]: not used; no node has gpu_type = \"H100\""});
  }

  TEST_CASE("the example is the preset cluster-a") {
    const PlanCluster preset = read_plan_cluster("cluster-a");
    const PlanCluster example = read_plan_cluster("examples/plan/cluster-a.toml");
    CHECK(preset.name == "cluster-a");
    CHECK(preset.hardware == example.hardware);
    CHECK(preset.reports.empty());
    REQUIRE(preset.view.nodes.size() == 8);
    REQUIRE(names(preset) == names(example));
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(preset.view.nodes[i].gpu_type == example.view.nodes[i].gpu_type);
      CHECK(preset.view.nodes[i].gpu_owner == example.view.nodes[i].gpu_owner);
      CHECK(preset.view.nodes[i].switches == example.view.nodes[i].switches);
    }
  }

  TEST_CASE("the preset cluster-b has 128 nodes in racks of 16") {
    const PlanCluster preset = read_plan_cluster("cluster-b");
    REQUIRE(preset.view.nodes.size() == 128);
    CHECK(preset.view.nodes[15].switches == std::vector<std::string>{"spine", "rack1"});
    CHECK(preset.view.nodes[16].switches == std::vector<std::string>{"spine", "rack2"});
    CHECK(preset.view.nodes[127].switches == std::vector<std::string>{"spine", "rack8"});
    CHECK(preset.hardware.crossing == 0.5);
  }

  TEST_CASE("an unknown or ill-typed key of a cluster file names file, line and key") {
    CHECK(refusal("") == "c.toml: nodes: missing; describe the nodes by [[nodes]]");
    CHECK(refusal(kNodes + "[planner]\n") == "c.toml:5: planner: unknown table; see espalier-plan(1)");
    CHECK(refusal("[nodes]\n") == "c.toml:1: nodes: must be a list of tables; write [[nodes]]");
    CHECK(refusal("nodes = [1]\n") == "c.toml:1: nodes: must be a table");
    CHECK(refusal(kNodes + "cpus = 3\n") == "c.toml:5: nodes.cpus: unknown key; see espalier-plan(1)");
    CHECK(refusal("[[nodes]]\nname = 3\n") == "c.toml:2: nodes.name: must be a string");
    CHECK(refusal("[[nodes]]\ngpus = 0\n") == "c.toml:2: nodes.gpus: must be between 1 and 256");
    CHECK(refusal("[[nodes]]\ngpu_type = \"\"\n") == "c.toml:2: nodes.gpu_type: must not be empty");
    CHECK(refusal(kNodes + "switches = \"leaf\"\n") == "c.toml:5: nodes.switches: must be a list of strings");
    CHECK(refusal(kNodes + "hwloc = 1\n") == "c.toml:5: nodes.hwloc: must be a string");
    CHECK(refusal(kNodes + "hwloc = \"none.xml\"\n") == "c.toml:5: nodes.hwloc: none.xml cannot be read");
    CHECK(refusal(kNodes + "hwloc = \".\"\n") == "c.toml:5: nodes.hwloc: . cannot be read");
    CHECK(refusal(kNodes + "[network]\nnic_gbs = 1\n") ==
          "c.toml:6: network.nic_gbs: unknown key; see espalier-plan(1)");
    CHECK(refusal(kNodes + "[network]\nv0_mb = 200\n") ==
          "c.toml: network.v_sat_mb: must be larger than network.v0_mb");
    CHECK(refusal(kNodes + "[gpu.h100]\ntflop = 1\n") == "c.toml:6: gpu.h100.tflop: unknown key; see espalier-plan(1)");
    for (const char* missing : {"name", "gpus", "gpu_type"}) {
      std::string text = kNodes;
      const auto at = text.find(std::string("\n") + missing + " = ") + 1;
      text.erase(at, text.find('\n', at) + 1 - at);
      CHECK(refusal(text) ==
            "c.toml:1: nodes." + std::string(missing) + ": missing; nodes need name, gpus and gpu_type");
    }
  }

  TEST_CASE("names of nodes are a host list, each node once") {
    const auto named = [](const std::string& name) {
      return refusal("[[nodes]]\nname = \"" + name + "\"\ngpus = 8\ngpu_type = \"h100\"\n");
    };
    CHECK(named("n[1-") == "c.toml:2: nodes.name: \"n[1-\" is no list of hosts; write n1 or n[1-8]");
    CHECK(named("n[8-1]") == "c.toml:2: nodes.name: \"n[8-1]\" is no list of hosts; write n1 or n[1-8]");
    CHECK(named(",") == "c.toml:2: nodes.name: \",\" is no list of hosts; write n1 or n[1-8]");
    CHECK(named("n[1-3],n2") == "c.toml:2: nodes.name: node n2 named twice");
    CHECK(refusal(kNodes + kNodes) == "c.toml:6: nodes.name: node n1 named twice");
    CHECK(named("n[1-16000],m[1-16000],o[1-16000],p[1-16000],q[1-16000]") ==
          "c.toml:2: nodes.name: more than 65536 nodes");
  }

  TEST_CASE("an hwloc file that is none says why") {
    const Folder folder;
    folder.write("node.xml", "junk");
    CHECK(complaint(folder, [&] {
            read_plan_cluster(folder.write("c.toml", kNodes + "hwloc = \"node.xml\"\n"));
          }).starts_with("c.toml:5: nodes.hwloc: node.xml: hwloc XML: "));
  }

  TEST_CASE("a cluster that is neither known nor a file is named") {
    CHECK_THROWS_WITH_AS(
        read_plan_cluster("cluster-c"),
        "cluster-c: no such cluster; give a file, cluster-a, cluster-b, cluster-arena, cluster-arena-a, "
        "cluster-arena-b or slurm",
        Error);
  }
}
