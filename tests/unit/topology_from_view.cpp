// A cluster's hardware from the daemon's knowledge.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/topology/from_view.hpp"
#include "planner/core/topology/gpu_specs.hpp"
#include "tests/unit/topology_xml.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

NodeView node(const std::string& name, const std::string& type, int gpus, const std::string& leaf = "leaf1") {
  NodeView view;
  view.name = name;
  view.gpu_type = type;
  view.switches = {"spine", leaf};
  view.gpu_owner.assign(static_cast<std::size_t>(gpus), 0);
  return view;
}

const NodeKind& kind_of(const SiteView& view, int node) {
  return view.site.hardware.kinds[static_cast<std::size_t>(view.site.topology.kind(node))];
}

}  // namespace

TEST_SUITE("topology") {
  TEST_CASE("GPU models are known by the word that names them") {
    CHECK(known_gpu("h100")->type == GpuType{"h100", 989.5, 80e9, 3350e6});
    CHECK(known_gpu("h100")->link == 450e6);
    CHECK(known_gpu("nvidia_a100-sxm4-80gb")->type == GpuType{"nvidia_a100-sxm4-80gb", 312, 80e9, 1555e6});
    CHECK(known_gpu("Tesla_V100-SXM2-32GB")->type.memory_bytes == 32e9);
    CHECK(known_gpu("nvidia_gh200_480gb")->type.memory_bytes == 96e9);  // those 480 GB are the CPU's
    CHECK(known_gpu("gh200_144gb")->type.memory_bytes == 144e9);
    CHECK(known_gpu("l40s")->type.tflops == 362);
    CHECK(known_gpu("l40")->type.tflops == 181);
    CHECK(known_gpu("l40s")->link == 0);
    CHECK(known_gpu("mi300x")->type.memory_bytes == 192e9);
    CHECK_FALSE(known_gpu(""));
    CHECK_FALSE(known_gpu("gpu"));
    // MIG instances: no whole GPUs.
    CHECK_FALSE(known_gpu("a100_1g.5gb"));
    CHECK_FALSE(known_gpu("nvidia_h100_80gb_hbm3_4g.40gb"));
    CHECK_FALSE(known_gpu("xh100"));
    CHECK_FALSE(known_gpu("80gb"));
  }

  TEST_CASE("nodes that cannot be told apart share a kind, whatever their names and switches") {
    ClusterView view;
    std::map<std::string, NodeHardware> reports;
    const NodeHardware report = read_node_xml(made_xml(2));
    for (int i = 0; i < 2048; ++i) {
      view.nodes.push_back(node("n" + std::to_string(i), "a40", 8, "leaf" + std::to_string(i / 32)));
      reports[view.nodes.back().name] = report;
    }
    const SiteView result = site_from_view(view, reports);
    CHECK(result.notes.empty());
    CHECK(result.site.hardware.types.size() == 1);
    CHECK(result.site.hardware.kinds.size() == 1);
    CHECK(result.site.topology.nodes() == 2048);
    CHECK(result.site.topology.find("n31") == 31);
    CHECK(result.site.topology.distance(0, 31) == 1);
    CHECK(result.site.topology.distance(0, 32) == 2);
    CHECK(result.site.topology.inside(0)->gpus == 8);
  }

  TEST_CASE("a report's slowest link on the best ring gives the bus bandwidth") {
    ClusterView view;
    view.nodes = {node("n1", "a40", 8), node("n2", "a40", 2), node("n3", "a40", 8)};
    std::map<std::string, NodeHardware> reports{{"n1", read_node_xml(made_xml(2))}};
    reports["n2"].inside = {2, {0, 60e6F, 60e6F, 0}};
    const SiteView result = site_from_view(view, reports);
    CHECK(kind_of(result, 0).tp_bandwidth == doctest::Approx(31.5e6 / 2 * 0.5));  // crosses NUMA nodes
    CHECK(kind_of(result, 0).dp_bandwidth == doctest::Approx(31.5e6 / 2 * 0.7));
    CHECK(kind_of(result, 1).tp_bandwidth == doctest::Approx(30e6));
    CHECK(kind_of(result, 2).tp_bandwidth == doctest::Approx(15.753846e6 * 0.5));  // no report: PCIe by data sheet
    CHECK(result.site.topology.inside(result.site.topology.kind(2)) == nullptr);
    CHECK(result.site.topology.effective_bandwidth(result.site.hardware, 0, 0, 0, 1) == 31.5e6);
  }

  TEST_CASE("rings avoid slow links where they can") {
    CHECK(slowest_ring_link({1, {0}}) == 0);
    CHECK(slowest_ring_link({2, {0, 7, 7, 0}}) == 7);
    // A path of fast links 0-1, 1-2, beside a slow 0-2.
    CHECK(slowest_ring_link({3, {0, 9, 1, 9, 0, 8, 1, 8, 0}}) == 8);
    // Two pairs: a ring has to use some link between them.
    CHECK(slowest_ring_link({4, {0, 40, 2, 3, 40, 0, 2, 2, 2, 2, 0, 40, 3, 2, 40, 0}}) == 3);
  }

  TEST_CASE("where hwloc saw NVSwitches but no speeds, the data sheet has the word") {
    ClusterView view;
    view.nodes = {node("n1", "h100", 8), node("n2", "thing", 8)};
    NodeHardware report = read_node_xml(made_xml(2));
    report.hidden_nvlink = true;
    const SiteView result = site_from_view(view, {{"n1", report}, {"n2", report}});
    CHECK(kind_of(result, 0).tp_bandwidth == 225e6);
    CHECK(result.site.topology.inside(result.site.topology.kind(0)) == nullptr);
    CHECK(result.site.topology.effective_bandwidth(result.site.hardware, 0, 0, 0, 7) == 225e6);
    CHECK(result.site.topology.inside(result.site.topology.kind(1)) != nullptr);
  }

  TEST_CASE("a real DGX-2 among nodes without reports") {
    const std::string xml = shared_xml("nvidiaDGX2.xml");
    if (xml.empty()) return;
    ClusterView view;
    view.nodes = {node("dgx", "v100", 16), node("plain", "v100", 16)};
    std::vector<std::string> notes;
    const SiteView result = site_from_view(view, read_reports({{"dgx", xml}}, notes));
    CHECK(notes.empty());
    CHECK(kind_of(result, 0) == kind_of(result, 1));  // the data sheet says 150 GB/s per direction too
    CHECK(kind_of(result, 0).tp_bandwidth == 75e6);
    CHECK(kind_of(result, 0).dp_bandwidth == doctest::Approx(105e6));
    CHECK(result.site.topology.effective_bandwidth(result.site.hardware, 0, 3, 0, 12) == 150e6);
  }

  TEST_CASE("what cannot be used is noted, and planned without") {
    std::vector<std::string> notes;
    const auto reports = read_reports({{"n1", made_xml(1)}, {"n2", "junk"}}, notes);
    CHECK(notes == std::vector<std::string>{
                       "node n2: hwloc XML: not what hwloc 2 writes; export it with espalier-report or lstopo"});
    ClusterView view;
    view.nodes = {node("n1", "h100", 8), node("n2", "cerebro", 4), node("n3", "", 0)};
    const SiteView result = site_from_view(view, reports);
    CHECK(result.notes ==
          std::vector<std::string>{"node n1: hwloc reports 4 GPUs, Slurm has 8; its report is not used",
                                   "GPU type \"cerebro\": not known, taken for an A100 of 40 GB; give [gpu.NAME]"});
    CHECK(result.site.hardware.types ==
          std::vector<GpuType>{{"h100", 989.5, 80e9, 3350e6}, {"cerebro", 312, 40e9, 1555e6}});
    CHECK(kind_of(result, 0).tp_bandwidth == 225e6);
    CHECK(kind_of(result, 1) == NodeKind{});
    CHECK(result.site.topology.gpu_types(1) == std::vector<std::int16_t>(4, 1));
    CHECK(result.site.topology.gpu_types(2).empty());
    view.nodes[1].name = "n1";
    CHECK_THROWS_AS(site_from_view(view, {}), Error);
  }

  TEST_CASE("a site's own figures come first") {
    ClusterView view;
    view.nodes = {node("n1", "h100", 8), node("n2", "cerebro", 4)};
    HardwareOverrides site;
    site.gpus["h100"].memory_gb = 94;
    site.gpus["cerebro"] = {500, 32, 2000};
    site.tp_gb_s = 300;
    site.nic_gb_s = 40;
    site.nics = 4;
    site.crossing = 0.7;
    site.v0_mb = 2;
    site.v_sat_mb = 64;
    const SiteView result = site_from_view(view, {}, site);
    CHECK(result.notes.empty());
    const Hardware& hardware = result.site.hardware;
    CHECK(hardware.types == std::vector<GpuType>{{"h100", 989.5, 94e9, 3350e6}, {"cerebro", 500, 32e9, 2000e6}});
    CHECK(kind_of(result, 0) == NodeKind{300e6, 315e6, 40e6, 4});
    CHECK(kind_of(result, 1) == NodeKind{300e6, 140e6, 40e6, 4});
    CHECK(hardware.crossing == 0.7);
    CHECK(hardware.v0 == 2e6);
    CHECK(hardware.v_sat == 64e6);
  }

  TEST_CASE("an unknown type of which a site gives TFLOPS alone has no bandwidth of another type") {
    ClusterView view;
    view.nodes = {node("n1", "a100", 8), node("n2", "cerebro", 8), node("n3", "h100", 8)};
    HardwareOverrides site;
    site.gpus["cerebro"] = {2500, 288, 0};
    site.gpus["h100"].tflops = 800;  // its data sheet's bandwidth stays
    const SiteView result = site_from_view(view, {}, site);
    CHECK(result.site.hardware.types ==
          std::vector<GpuType>{{"a100", 312, 40e9, 1555e6}, {"cerebro", 2500, 288e9, 0}, {"h100", 800, 80e9, 3350e6}});
    REQUIRE(result.notes.size() == 1);
    CHECK(result.notes[0].find("give memory_bandwidth_gb_s in [gpu.NAME]") != std::string::npos);
  }
}
