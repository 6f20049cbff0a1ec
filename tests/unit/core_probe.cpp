// `espalier calibrate` without a cluster: which nodes it measures, and what it concludes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "planner/cli/calibrate_job.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/hardware.hpp"
#include "planner/core/probe/choose_nodes.hpp"
#include "planner/core/probe/findings.hpp"

using namespace espalier;

namespace {

// Leaves of `width` nodes n0, n1, ...; two leaves to a spine, all spines to a core.
Topology tree(int nodes, int width) {
  Topology topology;
  for (int i = 0; i < nodes; ++i) {
    const int leaf = i / width;
    topology.add_node("n" + std::to_string(i), 0, std::vector<std::int16_t>(4, 0),
                      {"core", "spine" + std::to_string(leaf / 2), "leaf" + std::to_string(leaf)});
  }
  return topology;
}

std::vector<ProbeNode> nodes_named(int count) {
  std::vector<ProbeNode> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back({"n" + std::to_string(i), "h100", 4, true});
  return nodes;
}

// Links of 10 GB/s a rail and four GPUs a node, with a `factor` for one way.
ProbeReport links_of(const std::vector<std::string>& nodes, const Topology& topology, int rails,
                     const std::function<double(const std::string&, const std::string&)>& factor) {
  ProbeReport report;
  report.ended = report.complete = true;
  for (const std::string& a : nodes)
    for (const std::string& b : nodes) {
      if (a == b) continue;
      const int distance = topology.distance(topology.find(a), topology.find(b));
      const double rail = 10 * std::pow(0.6, distance - 1) * factor(a, b);
      report.links.push_back({a, b, 1, 1e6, 0.9 * rail});
      report.links.push_back({a, b, 1, 16e6, rail});
      report.links.push_back({a, b, 4, 16e6, rails * rail});
    }
  return report;
}
double same(const std::string&, const std::string&) { return 1; }

}  // namespace

TEST_CASE("calibrate measures each GPU type, and pairs at every distance, on idle nodes first") {
  const Topology topology = tree(32, 4);
  auto nodes = nodes_named(32);
  std::string names;
  for (const std::string& name : choose_nodes(nodes, topology)) names += name + " ";
  CHECK(names == "n0 n1 n16 n17 n4 n5 n8 n9 ");
  nodes[0].idle = nodes[1].idle = false;
  nodes[31].gpu_type = "a100";
  const auto chosen = choose_nodes(nodes, topology);
  CHECK(chosen.size() == 8);
  std::string others;
  for (const std::string& name : chosen) others += name + " ";
  CAPTURE(others);
  for (const char* name : {"n2", "n3", "n28", "n31"}) CHECK(std::count(chosen.begin(), chosen.end(), name) == 1);
  const Topology flat = tree(6, 6);
  CHECK(choose_nodes(nodes_named(6), flat).size() == 4);
  CHECK(choose_nodes(nodes_named(1), flat) == std::vector<std::string>{"n0"});
  CHECK(choose_pairs({"n0"}, flat).empty());
  CHECK(choose_pairs({"n0", "n4", "n5"}, topology) == std::vector<NodePair>{{"n4", "n5"}, {"n0", "n4"}, {"n0", "n5"}});
  std::vector<std::string> all;
  for (int i = 0; i < 32; ++i) all.push_back("n" + std::to_string(i));
  CHECK(choose_pairs(all, topology).size() <= 2 * 32 * 3);
}

TEST_CASE("calibrate finds rails, their bandwidth and the crossing") {
  const Topology topology = tree(8, 2);
  const std::vector<std::string> nodes{"n0", "n1", "n2", "n3"};
  for (const int rails : {1, 2, 4}) {
    const Findings found = findings_of(links_of(nodes, topology, rails, same), topology, {});
    CHECK(found.nics == (rails == 4 ? 0 : rails));
    CHECK(*found.nic_gb_s == doctest::Approx(10));
    CHECK(*found.crossing == doctest::Approx(0.6));
    CHECK(found.slow.empty());
  }
  const Findings apart = findings_of(links_of({"n0", "n2"}, topology, 1, same), topology, {});
  // Nothing tells the leaf's links from those above: predictions between n0 and n2 are what was measured.
  CHECK(*apart.nic_gb_s == doctest::Approx(6));
  CHECK(*apart.crossing == 1);
  CHECK(apart.by_distance.at(2) == doctest::Approx(6));
  CHECK(apart.notes.back() ==
        "no two of the nodes are under one leaf switch: nic_gb_s follows from nodes farther apart");
  const Findings levels = findings_of(links_of({"n0", "n2", "n4"}, topology, 1, same), topology, {});
  CHECK(*levels.nic_gb_s == doctest::Approx(10));
  CHECK(*levels.crossing == doctest::Approx(0.6));
}

TEST_CASE("calibrate names a slow link and does not count it") {
  const Topology topology = tree(8, 2);
  const std::vector<std::string> nodes{"n0", "n1", "n2", "n3"};
  const auto slow_node = [](const std::string& a, const std::string&) { return a == "n3" ? 0.3 : 1; };
  Findings found = findings_of(links_of(nodes, topology, 1, slow_node), topology, {});
  REQUIRE(found.slow.size() == 1);
  CHECK(found.slow[0].starts_with("node n3 sends at 3 GB/s, 30% of what its like do"));
  CHECK(*found.nic_gb_s == doctest::Approx(10));
  CHECK(*found.crossing == doctest::Approx(0.6));
  const auto slow_path = [](const std::string& a, const std::string& b) { return a == "n0" && b == "n2" ? 0.5 : 1; };
  found = findings_of(links_of(nodes, topology, 1, slow_path), topology, {});
  REQUIRE(found.slow.size() == 1);
  CHECK(found.slow[0] == "the path from n0 to n2 reaches 3 GB/s, 50% of what both do elsewhere");
}

TEST_CASE("calibrate compares links with those between the same GPU types, and tells rails by type") {
  const Topology topology = tree(8, 4);
  const std::vector<std::string> nodes{"n0", "n1", "n2", "n4", "n5", "n6"};
  std::map<std::string, std::string> types;
  for (const std::string& node : nodes) types[node] = node < "n4" ? "h100" : "l4";
  const auto slower = [](const std::string& a, const std::string& b) { return a >= "n4" || b >= "n4" ? 0.25 : 1; };
  Findings found = findings_of(links_of(nodes, topology, 2, slower), topology, types);
  CHECK(found.slow.empty());
  CHECK_FALSE(found.nic_gb_s);
  CHECK_FALSE(found.nics);
  REQUIRE(found.rails.size() == 2);
  CHECK(found.rails.at("h100").nic_gb_s == doctest::Approx(10));
  CHECK(found.rails.at("l4").nic_gb_s == doctest::Approx(2.5));
  CHECK(found.rails.at("l4").nics == 2);
  CHECK(*found.crossing == doctest::Approx(0.6));
  const std::string toml = to_toml(found, "2026-11-27", "n[0-6]");
  CHECK(toml.find("[gpu.\"l4\"]\nmeasured = \"2026-11-27\"\nnic_gb_s = 2.50000\nnics = 2\n") != std::string::npos);
  CHECK(toml.find("[network]\nmeasured = \"2026-11-27\"\ncrossing") != std::string::npos);
  // A slow link among the slower ones is still named.
  const auto faulty = [&](const std::string& a, const std::string& b) { return slower(a, b) * (a == "n5" ? 0.4 : 1); };
  found = findings_of(links_of(nodes, topology, 2, faulty), topology, types);
  REQUIRE(found.slow.size() == 1);
  CHECK(found.slow[0].starts_with("node n5 sends"));
  CHECK(found.rails.at("l4").nic_gb_s == doctest::Approx(2.5));
  // One node of a type: as fast as what it reached with others, and no slower.
  const std::vector<std::string> one_l4{"n0", "n1", "n2", "n4"};
  found = findings_of(links_of(one_l4, topology, 2, slower), topology, types);
  CHECK(found.slow.empty());
  CHECK(found.rails.at("h100").nic_gb_s == doctest::Approx(10));
  CHECK(found.rails.at("l4").nic_gb_s <= 2.51);
  // One type of two was measured: the other one keeps what it had.
  found = findings_of(links_of({"n0", "n1", "n2"}, topology, 2, slower), topology, types);
  CHECK_FALSE(found.nic_gb_s);
  CHECK(found.rails.size() == 1);
}

TEST_CASE("calibrate leaves out what counts for all nodes where a GPU type was not measured") {
  const Topology topology = tree(2, 2);
  ProbeReport report;
  report.complete = true;
  for (double bytes = 65536; bytes <= 3e8; bytes *= 4)
    for (const bool activations : {true, false}) report.reduces.push_back({"n0", "", activations, 4, bytes, 100});
  CHECK(findings_of(report, topology, {{"n0", "h100"}}).tp_gb_s);
  const Findings found = findings_of(report, topology, {{"n0", "h100"}, {"n1", "l4"}});
  CHECK_FALSE(found.tp_gb_s);
  CHECK_FALSE(found.dp_gb_s);
  CHECK_FALSE(found.v0_mb);
  CHECK_FALSE(found.v_sat_mb);
  REQUIRE_FALSE(found.notes.empty());
  CHECK(found.notes.front().starts_with("GPU type l4 was not measured"));
}

TEST_CASE("calibrate fits the curve of all-reduces as the planner's model has it") {
  const Topology topology = tree(2, 2);
  Hardware hardware;
  hardware.v0 = 0.05e6;
  hardware.v_sat = 40e6;
  ProbeReport report;
  report.complete = true;
  for (const char* node : {"n0", "n1"})
    for (double bytes = 65536; bytes <= 3e8; bytes *= 4) {
      const double sent = 2 * (1 - 1.0 / 4) * bytes;
      report.reduces.push_back({node, "", true, 4, bytes, 120 * saturation(hardware, sent)});
      report.reduces.push_back({node, "", false, 4, bytes, 150 * saturation(hardware, sent)});
    }
  const std::map<std::string, std::string> types{{"n0", "h100"}, {"n1", "h100"}};
  Findings found = findings_of(report, topology, types);
  CHECK(*found.tp_gb_s == doctest::Approx(120).epsilon(0.02));
  CHECK(*found.v_sat_mb == doctest::Approx(40).epsilon(0.1));
  CHECK(*found.dp_gb_s == doctest::Approx(150).epsilon(0.01));
  CHECK(found.reduce_error < 0.02);
  // Nodes of another type that differ inside: one figure for all nodes would be wrong.
  for (ReduceSpeed& speed : report.reduces)
    if (speed.node == "n1") speed.gb_s /= 10;
  found = findings_of(report, topology, {{"n0", "h100"}, {"n1", "l4"}});
  CHECK(!found.tp_gb_s);
  CHECK(found.slow.empty());
  // The same among nodes of one type is a fault.
  found = findings_of(report, topology, types);
  CHECK(found.slow.size() == 2);
}

TEST_CASE("calibrate names a GPU far below its kind") {
  const Topology topology = tree(2, 2);
  ProbeReport report;
  for (int gpu = 0; gpu < 4; ++gpu) report.gpus.push_back({"n0", gpu, gpu == 2 ? 300.0 : 600.0, 3000});
  const Findings found = findings_of(report, topology, {{"n0", "h100"}});
  REQUIRE(found.slow.size() == 1);
  CHECK(found.slow[0] == "GPU n0/2 computes (TFLOPS) at 300, 50% of the other h100");
  CHECK(found.gpus.at("h100").tflops == 600);
  CHECK_THROWS_WITH_AS(findings_of(ProbeReport{{{"x", 0, 1, 1}}, {}, {}, true, true}, topology, {}),
                       "node x: measured, but not one of those that were asked for", Error);
}

TEST_CASE("what ranks print is read back, beside MPI's own words") {
  const ProbeReport report = probe_report("MPI: a warning\n" + to_line(GpuSpeed{"n1", 3, 600.5, 3000}) + "\n" +
                                          to_line(ReduceSpeed{"n1", "n2", false, 2, 65536, 1.5}) + "\n" +
                                          to_line(LinkSpeed{"n1", "n2", 4, 65536, 2.5}) + "\n" + last_line(true));
  CHECK(report.gpus.at(0).tflops == 600.5);
  CHECK(report.reduces.at(0).other == "n2");
  CHECK(report.links.at(0).streams == 4);
  CHECK(report.ended);
  CHECK(report.complete);
  CHECK_THROWS_AS(probe_report("{\"calibrate\":{\"gpu\":{\"node\":\"n\",\"gpu\":0,\"tflops\":-1,\"memory_gb_s\":1}}}"),
                  Error);
  CHECK_THROWS_AS(probe_report("{\"calibrate\":17}"), Error);
  const ProbeRequest request = probe_request(to_text({{{"n1", "n2"}}, 60}));
  CHECK(request.pairs.at(0) == NodePair{"n1", "n2"});
  CHECK_THROWS_AS(probe_request("{"), Error);
  const std::string deep = "{\"pairs\":[],\"seconds\":" + std::string(100, '[') + std::string(100, ']') + "}";
  CHECK_THROWS_WITH_AS(probe_request(deep), "--calibrate: is no JSON; espalier calibrate writes it", Error);
}

TEST_CASE("the job of calibrate asks for whole nodes, a start in time and an end") {
  cli::CalibrateJob job;
  job.nodes = {"n1", "n2", "n4"};
  job.gpus = 8;
  job.extra = {"-A", "staff"};
  job.program = "/usr/bin/espalier-train";
  const auto command = cli::salloc_command(job);
  for (const char* word : {"--nodelist=n[1-2,4]", "--nodes=3", "--ntasks-per-node=8", "--exclusive", "--time=10",
                           "--immediate=300", "-A", "staff", "/usr/bin/espalier-train"})
    CHECK(std::count(command.begin(), command.end(), word) == 1);
}

TEST_CASE("a node that was disturbed once while it was measured is not slow") {
  const Topology topology = tree(3, 3);
  const std::map<std::string, std::string> types{{"n0", "h100"}, {"n1", "h100"}, {"n2", "h100"}};
  ProbeReport report;
  report.complete = true;
  const auto measured = [&](const std::string& node, double factor) {
    for (double bytes = 65536; bytes <= 3e8; bytes *= 4)
      for (const bool activations : {true, false})
        report.reduces.push_back({node, "", activations, 4, bytes, 100 * factor});
  };
  for (const char* node : {"n0", "n1", "n2"}) measured(node, std::string(node) == "n1" ? 0.5 : 1);
  Findings found = findings_of(report, topology, types);
  CHECK(found.slow.size() == 2);  // activations and gradients
  CHECK(found.slow.at(0).starts_with("node n1 all-reduces activations"));
  for (const char* node : {"n0", "n1", "n2"}) measured(node, 0.98);
  found = findings_of(report, topology, types);
  CHECK(found.slow.empty());
}
