// `espalier-bench decide`: its clusters, its arguments, and that the same seed gives the same decisions.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "planner/cli/preset_clusters.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/topology/from_view.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/daemon_decision.hpp"
#include "tests/bench/planner/decisions.hpp"
#include "tests/bench/planner/paper_cluster.hpp"
#include "tests/bench/planner/typed_cluster.hpp"

using namespace espalier;
using namespace espalier::bench;

namespace {

std::string refusal(std::vector<std::string> words) {
  CLI::App app;
  add_decide(app);
  words.insert(words.begin(), "decide");
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "accepted";
}

std::string cluster_refusal(int gpus, int types) {
  try {
    typed_cluster(gpus, types);
  } catch (const Error& error) {
    return error.what();
  }
  return "made";
}

std::map<std::string, int> gpus_by_type(const ClusterView& view) {
  std::map<std::string, int> gpus;
  for (const NodeView& node : view.nodes) gpus[node.gpu_type] += static_cast<int>(node.gpu_owner.size());
  return gpus;
}

Site site_of(const TypedCluster& cluster) { return site_from_view(cluster.view, {}, cluster.hardware).site; }

// Everything that was decided, as text.
std::string decided(const DecisionRun& given) {
  std::ostringstream text;
  DecisionRun run = given;
  run.watch = [&](const PlanningInput& input, const std::vector<Decision>& decisions) {
    text << input.now << ' ' << input.jobs.size() << ' ' << input.cluster.waiting.size() << '\n';
    for (const Decision& d : decisions) {
      text << d.job << ' ' << static_cast<int>(d.kind) << ' ' << d.reason;
      for (const ExtensionRequest& part : d.acquire) text << ' ' << part.node << '/' << part.gpus;
      for (const GpuId& gpu : d.plan.ranks()) text << ' ' << gpu.node << ':' << gpu.index;
      text << '\n';
    }
  };
  measure_decisions(run);
  return text.str();
}

// Decisions for the cases below, with moves.
DecisionRun small_run(unsigned seed = 6) {
  return {{.gpus = 128, .types = 2, .movable = 1, .seed = seed}, 150, 0, false, {}};
}

}  // namespace

TEST_SUITE("bench") {
  TEST_CASE("decide refuses what no cluster can be, and says why") {
    const std::string six = ": there are nodes of 6 types: a100, a40, a10, v100, h100, l20";
    CHECK(refusal({"--types", "0"}) == "--types 0: a cluster has at least one type of GPU");
    CHECK(refusal({"--types", "-1"}) == "--types -1: a cluster has at least one type of GPU");
    CHECK(refusal({"--types", "7"}) == "--types 7" + six);
    CHECK(refusal({"--types", "2", "--movable", "1.5"}) == "--movable 1.500000: the share of the jobs is from 0 to 1");
    CHECK(refusal({"--movable", "-0.5"}) == "--movable -0.500000: the share of the jobs is from 0 to 1");
    CHECK(refusal({"--movable", "nan"}) == "--movable nan: the share of the jobs is from 0 to 1");
    CHECK(refusal({"--movable", "half"}) == "Could not convert: --movable = half");
    CHECK(refusal({"--types", "two"}) == "Could not convert: --types = two");
    CHECK(refusal({"--gpus", "8"}).find("--gpus") == 0);
    CHECK(refusal({"--decisions", "0"}).find("--decisions") == 0);
    CHECK(refusal({"--gpus", "1001"}) ==
          "--gpus 1001: 1 of them make no whole node; the smallest node of --types 1 has 8 GPUs");
    CHECK(refusal({"--gpus", "1001", "--types", "4"}) ==
          "--gpus 1001: 1 of them make no whole node; the smallest node of --types 4 has 2 GPUs");
  }

  TEST_CASE("more types than nodes are refused") {
    CHECK(cluster_refusal(16, 6) ==
          "--types 6: more types than 16 GPUs have nodes for; a node of l20 has 16 GPUs; give more --gpus or fewer "
          "--types");
    CHECK(cluster_refusal(24, 4) == "made");
  }

  TEST_CASE("1,280 GPUs of four types are the preset cluster-arena") {
    auto preset = cli::preset_cluster("cluster-arena");
    auto& nodes = preset->view.nodes;  // types are numbered in the order of the nodes
    std::sort(nodes.begin(), nodes.end(), [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
    const TypedCluster made = typed_cluster(1280, 4);
    CHECK(made.hardware == preset->hardware);
    CHECK(gpus_by_type(made.view) == gpus_by_type(preset->view));
    CHECK(made.view.nodes.size() == preset->view.nodes.size());
    const Site site = site_of(made);
    CHECK(site.hardware == site_from_view(preset->view, {}, preset->hardware).site.hardware);
  }

  TEST_CASE("one type is the paper's cluster, and more share the GPUs out to the last one") {
    const Site one = site_of(typed_cluster(1024, 1)), paper = paper_cluster(128, 16);
    CHECK(one.hardware == paper.hardware);
    CHECK(one.topology.nodes() == paper.topology.nodes());
    CHECK(one.topology.distance(0, 15) == paper.topology.distance(0, 15));
    CHECK(one.topology.distance(0, 16) == paper.topology.distance(0, 16));
    for (const int gpus : {64, 1000, 1280, 16384})
      for (int types = 2; types <= 6; ++types) {
        CAPTURE(gpus);
        CAPTURE(types);
        const auto by_type = gpus_by_type(typed_cluster(gpus, types).view);
        CHECK(by_type.size() == static_cast<std::size_t>(types));
        int sum = 0;
        for (const auto& [type, count] : by_type) {
          sum += count;
          CHECK(std::abs(count - gpus / types) < 32);  // a node has up to 16
        }
        CHECK(sum == gpus);
      }
  }

  TEST_CASE("the same seed gives the same decisions, and another seed others") {
    const std::string first = decided(small_run());
    CHECK(first.find("waits for room on") != std::string::npos);
    CHECK(decided(small_run()) == first);
    CHECK(decided(small_run(2)) != first);
  }

  TEST_CASE("what a job holds in the input is its own, of its types, and every type's speed is known") {
    BusyCluster cluster({.gpus = 320, .types = 4, .movable = 0.5, .seed = 3});
    DaemonDecision planner({});
    cluster.end_one();
    std::size_t movable = 0, restricted = 0, mixed = 0;
    for (int n = 0; n < 40; ++n) {
      cluster.submit_one();
      const auto decisions = planner.decide(cluster);
      const PlanningInput& input = planner.input();
      CHECK(input.jobs.size() + (!decisions.empty() && moves_base(decisions.front())) == cluster.jobs().size());
      std::set<GpuId> taken;
      for (const ElasticJob& job : input.jobs) {
        const LiveJob& live = cluster.jobs().at(job.id);
        REQUIRE(input.coefficients.at(job.id).gpu.size() == 4);
        std::set<std::string> types;
        std::set<GpuId> held;
        for (const auto* holdings : {&job.anchor, &job.extensions})
          for (const Holding& one : *holdings)
            for (const int index : one.gpus) {
              CHECK(input.cluster.find(one.node)->gpu_owner[static_cast<std::size_t>(index)] == one.job);
              CHECK(taken.insert({one.node, index}).second);
              held.insert({one.node, index});
              if (holdings == &job.anchor) types.insert(input.cluster.find(one.node)->gpu_type);
            }
        for (const GpuId& gpu : job.plan->ranks()) CHECK(held.contains(gpu));
        CHECK(types.size() == 1);
        CHECK(job.step_seconds > 0);
        CHECK((base_of(job) != 0) == live.movable);
        if (!live.types.empty())
          CHECK(std::find(live.types.begin(), live.types.end(), *types.begin()) != live.types.end());
        movable += live.movable;
        restricted += !live.types.empty();
        mixed += !live.movable;
      }
      for (const WaitingJob& waiting : cluster.slurm().cluster.waiting) {
        std::set<std::string> types;
        for (const std::string& name : waiting.only_nodes) types.insert(input.cluster.find(name)->gpu_type);
        CHECK(types.size() == 1);
      }
      cluster.apply(decisions);
      cluster.start_waiting();
      if (n % 2 == 0) cluster.end_one();
    }
    CHECK(movable > 0);
    CHECK(mixed > 0);
    CHECK(restricted > 0);
    CHECK(restricted < movable);
  }

  TEST_CASE("moves are counted, stay on one type, and need movable jobs") {
    DecisionRun run = small_run();
    std::size_t moves = 0;
    run.watch = [&](const PlanningInput& input, const std::vector<Decision>& decisions) {
      for (const Decision& d : decisions) {
        if (!moves_base(d)) continue;
        ++moves;
        CHECK(!input.cluster.waiting.empty());
        std::set<std::string> types;
        for (const ExtensionRequest& part : d.acquire) {
          types.insert(input.cluster.find(part.node)->gpu_type);
          CHECK(input.cluster.find(part.node)->idle_gpus() >= part.gpus);
        }
        CHECK(types.size() == 1);
        for (const ElasticJob& job : input.jobs) CHECK(job.id != d.job);  // the scheduler leaves it alone
      }
    };
    const DecisionFigures figures = measure_decisions(run);
    CHECK(moves > 0);
    CHECK(figures.moved == moves);
    CHECK(figures.ms.size() == 150);
    CHECK(figures.cold_start_ms.size() == 5);
    CHECK(figures.cold_start_ms.front() == figures.ms.front());
    run.cluster.movable = 0;
    run.watch = {};
    CHECK(measure_decisions(run).moved == 0);
  }
}
