// Where the base of a movable job can move to.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/scheduler.hpp"

namespace {

using namespace espalier;

NodeView node(const std::string& name, const std::string& type, std::vector<JobId> owners) {
  NodeView view;
  view.name = name;
  view.gpu_type = type;
  view.gpu_owner = std::move(owners);
  return view;
}

// The base, job 7, has one GPU on each of n1 and n2.
ElasticJob job() {
  ElasticJob job;
  job.id = 5;
  job.anchor = {{7, "n1", {0}}, {7, "n2", {0}}};
  return job;
}

ClusterView cluster() {
  ClusterView view;
  view.nodes = {node("n1", "h100", {7, 9}), node("n2", "h100", {7, 9}), node("n3", "h100", {0, 0}),
                node("n4", "a100", {0, 9}), node("n5", "a100", {9, 0})};
  return view;
}

using Base = std::vector<std::pair<std::string, int>>;

Base place(const MoveWish& wish, const ClusterView& view, const Reach& reach = {}) {
  Base base;
  for (const ExtensionRequest& part : place_for(job(), wish, reach, view)) {
    CHECK(part.lease_minutes == 0);  // no extension
    base.push_back({part.node, part.gpus});
  }
  return base;
}

TEST_CASE("without a wish a base moves to fewer nodes, and stays where there are none") {
  CHECK(place({}, cluster()) == Base{{"n3", 2}});
  ClusterView view = cluster();
  view.nodes[2].gpu_owner = {0, 9};
  CHECK_THROWS_WITH_AS(place({}, view),
                       "idle GPUs are on no fewer nodes than its base, which is on 2 nodes; name a type or nodes",
                       Error);
}

TEST_CASE("a base does not move to a node where an idle GPU is unfit for the job, but where the user names it") {
  ElasticJob unfit = job();
  unfit.unfit = {{"n3", 1}};
  CHECK_THROWS_AS(place_for(unfit, {}, {}, cluster()), Error);
  CHECK_THROWS_AS(place_for(unfit, {"h100", {}}, {}, cluster()), Error);
  const auto named = place_for(unfit, {"", {"n3"}}, {}, cluster());
  REQUIRE(named.size() == 1);
  CHECK(named[0].node == "n3");
  CHECK(place_for(unfit, {"a100", {}}, {}, cluster()).size() == 2);
  unfit.unfit = {{"n3", 7}, {"n3", -1}, {"n4", 1}};  // of no GPU, or of one that another job has
  CHECK(place_for(unfit, {}, {}, cluster()).front().node == "n3");
  CHECK(place_for(unfit, {"a100", {}}, {}, cluster()).size() == 2);
}

TEST_CASE("a base moves only to nodes of its partition") {
  const auto partition = [](std::set<std::string> nodes) {
    return Reach{{}, std::make_shared<const std::set<std::string>>(std::move(nodes))};
  };
  CHECK(place({}, cluster(), partition({"n1", "n2", "n3"})) == Base{{"n3", 2}});
  CHECK_THROWS_AS(place({}, cluster(), partition({"n1", "n2", "n4", "n5"})), Error);
  CHECK_THROWS_WITH_AS(place({"", {"n3"}}, cluster(), partition({"n1", "n2"})),
                       "node n3: is not in the partition and the reservation of its base", Error);
}

TEST_CASE("a base moves to GPUs of a type, the same number on each node") {
  CHECK(place({"a100", {}}, cluster()) == Base{{"n4", 1}, {"n5", 1}});
  CHECK_THROWS_WITH_AS(place({"v100", {}}, cluster()),
                       "there are not 2 idle GPUs of type v100 with the same number of them on each node", Error);
  CHECK_THROWS_WITH_AS(place({"a100", {}}, cluster(), {{"h100"}}), "type a100: types= of the job leaves it out", Error);
}

TEST_CASE("without a wish for nodes a base moves to GPUs of one type") {
  ClusterView view = cluster();
  view.nodes = {node("n1", "h100", {7}), node("n2", "h100", {7}), node("n6", "h100", {0, 0}),
                node("n7", "a100", {0, 0}), node("n8", "a100", {0, 0})};
  ElasticJob wide = job();
  wide.anchor = {{7, "n1", {0}}, {7, "n2", {0}}, {7, "n3", {0}}, {7, "n4", {0}}};
  const auto base = place_for(wide, {}, {}, view);
  REQUIRE(base.size() == 2);
  CHECK(base.front().node == "n7");
  CHECK(base.back().node == "n8");
}

TEST_CASE("a base that waits is to wait for the nodes of a type, or for those that are named, idle or not") {
  using Names = std::vector<std::string>;
  CHECK(nodes_to_wait_for(2, {"h100", {}}, {}, cluster()) == Names{"n1", "n2", "n3"});
  CHECK(nodes_to_wait_for(2, {"", {"n5", "n4"}}, {}, cluster()) == Names{"n4", "n5"});
  CHECK(nodes_to_wait_for(2, {}, {}, cluster()).empty());
  const Reach some{{}, std::make_shared<const std::set<std::string>>(std::set<std::string>{"n1", "n4"})};
  CHECK(nodes_to_wait_for(2, {"h100", {}}, some, cluster()) == Names{"n1"});
  CHECK_THROWS_WITH_AS(nodes_to_wait_for(4, {"h100", {}}, some, cluster()),
                       "its base needs 4 GPUs, and there are 2 of type h100 in its partition", Error);
  CHECK_THROWS_WITH_AS(nodes_to_wait_for(4, {"", {"n4"}}, {}, cluster()),
                       "its base needs 4 GPUs, and these nodes have 2", Error);
  CHECK_THROWS_WITH_AS(nodes_to_wait_for(2, {"a100", {}}, {{"h100"}}, cluster()),
                       "type a100: types= of the job leaves it out", Error);
  CHECK_THROWS_WITH_AS(nodes_to_wait_for(2, {"", {"n9"}}, {}, cluster()), "node n9: Slurm knows no such node", Error);
}

TEST_CASE("a base moves to exactly the nodes that are named, or not at all") {
  CHECK(place({"", {"n3", "n4"}}, cluster()) == Base{{"n3", 1}, {"n4", 1}});
  CHECK(place({"", {"n3"}}, cluster()) == Base{{"n3", 2}});
  CHECK_THROWS_WITH_AS(place({"", {"n4"}}, cluster()), "not all of these nodes have 2 idle GPUs", Error);
  CHECK_THROWS_WITH_AS(place({"", {"n9"}}, cluster()), "node n9: Slurm knows no such node", Error);
  CHECK_THROWS_WITH_AS(place({"", {"n3", "n4", "n5"}}, cluster()),
                       "its base has 2 GPUs, which cannot be shared out evenly over 3 nodes", Error);
  ClusterView view = cluster();
  view.nodes[2].usable = false;
  CHECK_THROWS_WITH_AS(place({"", {"n3"}}, view), "node n3: is down, draining or in other partitions", Error);
  CHECK_THROWS_AS(place({"", {"n4", "n5"}}, cluster(), {{"h100"}}), Error);
}

TEST_CASE("GPUs that a waiting job could use are left to it") {
  ClusterView view = cluster();
  view.waiting.push_back({.id = 11, .gpus = 4, .nodes = 1, .only_nodes = {}, .expected_start = {}});
  CHECK_THROWS_WITH_AS(place({}, view), "another job waits for GPUs and could use those of n3", Error);
  view.waiting.front().only_nodes = {"n1", "n2"};
  CHECK(place({}, view) == Base{{"n3", 2}});
}

TEST_CASE("nodes that the running plan uses are preferred") {
  ElasticJob trains = job();
  trains.plan = uniform_plan(1, 2, 8, 16, 4, {{"n1", 0}, {"n2", 0}});
  CHECK(place_for(trains, {}, {}, cluster()).front().node == "n3");
  ClusterView view = cluster();
  view.nodes[1].gpu_owner = {7, 0, 0};
  CHECK(place_for(trains, {}, {}, view).front().node == "n2");  // rather than n3
}

// The nodes of the plan's GPUs, rank by rank.
std::vector<std::string> nodes_after(const ElasticJob& job, const std::vector<ExtensionRequest>& base) {
  const auto plan = plan_after_move(job, base, cluster(), nullptr);
  REQUIRE(plan);
  std::vector<std::string> nodes;
  for (const GpuId& gpu : plan->ranks()) nodes.push_back(gpu.node);
  return nodes;
}

TEST_CASE("where no node stays, the plan keeps one GPU of the base that is left, and has no more GPUs than before") {
  ElasticJob trains = job();
  trains.min_gpus = trains.max_gpus = 2;
  trains.model.layers = 8;
  trains.model.global_batch = 16;
  trains.plan = uniform_plan(1, 2, 8, 16, 4, {{"n1", 0}, {"n2", 0}});
  CHECK(nodes_after(trains, {{.node = "n3", .gpus = 2}}) == std::vector<std::string>{"n3", "n2"});
  // An extension stays.
  trains.max_gpus = 3;
  trains.extensions = {{8, "n2", {1}}};
  const auto nodes = nodes_after(trains, {{.node = "n3", .gpus = 2}});
  CHECK(nodes.front() == "n3");
  CHECK(std::count(nodes.begin(), nodes.end(), "n2") <= 1);
  CHECK(std::count(nodes.begin(), nodes.end(), "n1") == 0);
}

TEST_CASE("where no node stays, a job whose replicas have several GPUs keeps a whole one of the base that is left") {
  ClusterView view = cluster();
  view.nodes[0].gpu_owner = {7, 7};
  view.nodes[2].gpu_owner = {0, 0, 0, 0};
  ElasticJob trains = job();
  trains.anchor = {{7, "n1", {0, 1}}};
  trains.min_gpus = 2;
  trains.max_gpus = 4;
  SUBCASE("a program that divides its data over pairs") {
    trains.model = data_parallel_shape(16, {2}, "worker");
    trains.parallel = data_parallel_limits({2});
  }
  SUBCASE("a degree that the user has fixed") {
    trains.model.layers = 8;
    trains.model.heads = 8;
    trains.model.hidden = 64;
    trains.model.global_batch = 16;
    trains.parallel.tp = 2;
  }
  trains.plan = Plan{16, 1, {{data_parallel_only(trains) ? 1 : 8, 2, {{16, {{"n1", 0}, {"n1", 1}}}}}}};
  const auto plan = plan_after_move(trains, {{.node = "n3", .gpus = 4}}, view, nullptr);
  REQUIRE(plan);
  const auto ranks = plan->ranks();
  CHECK(std::count_if(ranks.begin(), ranks.end(), [](const GpuId& gpu) { return gpu.node == "n1"; }) == 2);
  CHECK(std::count_if(ranks.begin(), ranks.end(), [](const GpuId& gpu) { return gpu.node == "n3"; }) == 2);
}

TEST_CASE("where no node stays and the base is a single replica, it is left by way of two, beyond the job's maximum") {
  ClusterView view = cluster();
  view.nodes[0].gpu_owner = {7, 7};
  ElasticJob trains = job();
  trains.anchor = {{7, "n1", {0, 1}}};
  trains.min_gpus = trains.max_gpus = 2;
  trains.model.layers = 8;
  trains.model.heads = 8;
  trains.model.hidden = 64;
  trains.model.global_batch = 16;
  trains.parallel.tp = 2;
  trains.plan = Plan{16, 1, {{8, 2, {{16, {{"n1", 0}, {"n1", 1}}}}}}};
  const std::vector<ExtensionRequest> base{{.node = "n3", .gpus = 2}};
  const auto plan = plan_after_move(trains, base, view, nullptr);
  REQUIRE(plan);
  CHECK(plan->gpu_count() == 4);
  CHECK(most_after_move(trains.max_gpus, base, *trains.plan) == 4);
  CHECK(most_after_move(8, base, *trains.plan) == 8);
  CHECK(most_after_move(1, {{.node = "n3", .gpus = 1}}, uniform_plan(1, 1, 8, 16, 4, {{"n1", 0}})) == 2);
  CHECK(most_after_move(3, base, Plan{}) == 3);
}

TEST_CASE("where no node stays and the base has one GPU, both bases train for a while") {
  ElasticJob trains = job();
  trains.anchor = {{7, "n1", {0}}};
  trains.min_gpus = trains.max_gpus = 1;
  trains.model.layers = 8;
  trains.model.global_batch = 16;
  trains.plan = uniform_plan(1, 1, 8, 16, 4, {{"n1", 0}});
  CHECK(nodes_after(trains, {{.node = "n3", .gpus = 1}}) == std::vector<std::string>{"n3", "n1"});
}

TEST_CASE(
    "where no node stays and the new nodes alone would be faster, the plan keeps GPUs of the old base all the same") {
  ClusterView view = cluster();
  view.nodes[0].gpu_owner = {7, 7};
  PlanningBasis known{*neutral_site(view), std::nullopt};
  for (NodeKind& kind : known.site.hardware.kinds) kind.nic_bandwidth = 1;
  ElasticJob trains = job();
  trains.anchor = {{7, "n1", {0, 1}}};
  trains.min_gpus = trains.max_gpus = 2;
  trains.model = {"gpt2", 8, 256, 8, 128, 1000, 16, 4};
  trains.parallel.pp = 1;  // else there is a stage on each base: the search does not weigh what stages send each other
  ElasticJob moved = trains;  // as it is planned for
  std::vector<GpuId> gpus;
  SUBCASE("two replicas of one GPU") {
    trains.plan = uniform_plan(1, 2, 8, 16, 4, {{"n1", 0}, {"n1", 1}});
    moved.extensions = {{7, "n1", {1}}};
    gpus = {{"n3", 0}, {"n1", 1}};
  }
  SUBCASE("one replica of two GPUs") {
    trains.parallel.tp = moved.parallel.tp = 2;
    trains.plan = Plan{16, 1, {{8, 2, {{16, {{"n1", 0}, {"n1", 1}}}}}}};
    moved.extensions = {{7, "n1", {0, 1}}};
    moved.max_gpus = 4;
    gpus = {{"n3", 0}, {"n3", 1}, {"n1", 0}, {"n1", 1}};
  }
  moved.plan = trains.plan;
  moved.anchor = {{7, "n3", {0, 1}}};
  const auto uses_old = [](const Plan& plan) {
    const auto ranks = plan.ranks();
    return std::any_of(ranks.begin(), ranks.end(), [](const GpuId& gpu) { return gpu.node == "n1"; });
  };
  const auto fastest = plan_on_subset(moved, gpus, &known);
  REQUIRE(fastest);
  CHECK_FALSE(uses_old(*fastest));
  const auto plan = plan_after_move(trains, {{.node = "n3", .gpus = 2}}, view, &known);
  REQUIRE(plan);
  CHECK(uses_old(*plan));
  CHECK(plan->ranks().front().node == "n3");
}

TEST_CASE("a job whose base waits cannot move") {
  ElasticJob waits = job();
  waits.anchor.clear();
  CHECK_THROWS_WITH_AS(place_for(waits, {}, {}, cluster()), "its base does not run yet", Error);
}

}  // namespace
