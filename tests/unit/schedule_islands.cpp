// GPUs of one node that belong to two Slurm jobs of a training, or whose ranks do not reach each other.
#include <doctest/doctest.h>

#include <map>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/plan_trials.hpp"
#include "tests/unit/island_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// The islands of a node as lists of GPUs: those of the job, and what is in none.
std::vector<std::vector<int>> islands_on(const Site& site, const std::string& node, int gpus) {
  std::map<int, std::vector<int>> islands;
  for (int gpu = 0; gpu < gpus; ++gpu) islands[site.topology.find(node, gpu)].push_back(gpu);
  std::vector<std::vector<int>> result;
  for (const auto& [id, list] : islands) result.push_back(list);
  std::sort(result.begin(), result.end());
  return result;
}

using Islands = std::vector<std::vector<int>>;

}  // namespace

TEST_SUITE("islands") {
  TEST_CASE("a node's GPUs are divided by the Slurm jobs of the training, and what it does not hold is another part") {
    const auto site = site_of(3, 8);
    ElasticJob one = job(10, "n1", {0, 1, 2});
    one.extensions = {{20, "n1", {3, 6}}, {21, "n1", {4}}, {20, "n2", {0, 1, 2, 3, 4, 5, 6, 7}}, {21, "nowhere", {0}}};
    const auto own = site_for(site, one);
    CHECK(islands_on(*own, "n1", 8) == Islands{{0, 1, 2}, {3, 6}, {4}, {5, 7}});
    CHECK(own->topology.find("n1", 5) == site->topology.find("n1"));
    CHECK(islands_on(*own, "n2", 8).size() == 1);
    CHECK(own->topology.nodes() == 3 + 3);
    CHECK(islands_on(site_for(*site, one), "n1", 8) == islands_on(*own, "n1", 8));
  }

  TEST_CASE("where one Slurm job holds a node, and where jobs reach each other, the site stays as it is") {
    const auto site = site_of(2, 4);
    ElasticJob one = job(10, "n1", {0, 1, 2, 3});
    one.extensions = {{20, "n2", {0, 1, 2, 3}}};
    CHECK(site_for(site, one) == site);
    one.extensions = {{20, "n2", {0, 1}}, {21, "n2", {2, 3}}};
    CHECK(site_for(site, one) != site);
    auto reached = std::make_shared<Site>(*site);
    reached->hardware.jobs_reach = true;
    const std::shared_ptr<const Site> given = reached;
    CHECK(site_for(given, one) == given);
    one.jobs_reach = true;  // of a training whose ranks use no GPU memory it is said alone
    CHECK(site_for(site, one) == site);
    CHECK(site_for(*site, one).topology.nodes() == 2);
  }

  TEST_CASE("what ranks said of their GPUs divides a Slurm job's part; what fits not its GPUs is not used") {
    const auto site = site_of(1, 8);
    ElasticJob one = job(10, "n1", {0, 1, 2, 3});
    one.plan.reset();
    one.extensions = {{20, "n1", {5, 4, 7, 6}}};
    one.gpu_islands = {{"n1/10", {0, 1, 1, 0}}, {"n1/20", {0, 0, 5, 5}}};
    CHECK(islands_on(site_for(*site, one), "n1", 8) == Islands{{0, 3}, {1, 2}, {4, 5}, {6, 7}});
    one.gpu_islands = {{"n1/10", {0, 1}}, {"n1/20", {3, 3, 3, 3}}, {"n2/10", {0, 1, 2, 3}}};
    CHECK(islands_on(site_for(*site, one), "n1", 8) == Islands{{0, 1, 2, 3}, {4, 5, 6, 7}});
    one.anchor[0].gpus = {0, 1, 2, 3, 4, 5, 6, 7};
    one.extensions.clear();
    one.gpu_islands = {{"n1/10", {0, 0, 0, 0, 1, 1, 1, 1}}};  // one job has the whole node
    CHECK(islands_on(site_for(*site, one), "n1", 8) == Islands{{0, 1, 2, 3}, {4, 5, 6, 7}});
  }

  TEST_CASE("a GPU that a report names in two Slurm jobs counts once") {
    const auto site = site_of(1, 4);
    ElasticJob one = job(10, "n1", {0, 1});
    one.extensions = {{11, "n1", {0, 2}}};
    CHECK(islands_on(*site_for(site, one), "n1", 4) == Islands{{0, 1}, {2}, {3}});
  }

  TEST_CASE(
      "a job that runs TP groups across GPUs that do not reach each other may use any of that Slurm job's for them") {
    const auto site = site_of(1, 8);
    ElasticJob one = job(10, "n1", {0, 1, 2, 3});
    one.gpu_islands = {{"n1/10", {0, 1, 2, 3}}};
    one.plan = uniform_plan(1, 1, 8, 4, 4, {{"n1", 0}, {"n1", 1}}, 2);
    CHECK(islands_on(site_for(*site, one), "n1", 8) == Islands{{0, 1, 2, 3}, {4, 5, 6, 7}});
    one.plan = uniform_plan(1, 1, 8, 4, 4, {{"n1", 0}}, 1);
    CHECK(islands_on(site_for(*site, one), "n1", 8).size() == 5);
  }

  TEST_CASE("islands that a TP group of the present plan joins are one") {
    const auto site = site_of(1, 8);
    ElasticJob one = job(10, "n1", {0, 1, 2, 3});
    one.gpu_islands = {{"n1/10", {0, 0, 1, 1}}};
    one.plan = uniform_plan(1, 1, 8, 4, 4, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}}, 4);
    CHECK(islands_on(site_for(*site, one), "n1", 8) == Islands{{0, 1, 2, 3}, {4, 5, 6, 7}});
    one.plan = uniform_plan(1, 2, 8, 4, 2, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}}, 2);
    CHECK(islands_on(site_for(*site, one), "n1", 8) == Islands{{0, 1}, {2, 3}, {4, 5, 6, 7}});
  }

  TEST_CASE("a plan over two Slurm jobs of a node takes as long as over two nodes") {
    const auto site = site_of(2, 4);
    const auto ms = [&](const ElasticJob& one, const Plan& plan) {
      const Site own = site_for(*site, one);
      return evaluate_plan(own.hardware, own.topology, talkative(), plan).exact_ms;
    };
    const std::vector<GpuId> one_node{{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}};
    const std::vector<GpuId> two_nodes{{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}};
    for (const int pp : {1, 2, 4})
      for (const int tp : {1, 2}) {
        if (pp * tp > 4) continue;
        CAPTURE(pp);
        CAPTURE(tp);
        const auto plan_on = [&](const std::vector<GpuId>& gpus) {
          return uniform_plan(pp, 4 / pp / tp, 8, 32, 4, gpus, tp);
        };
        ElasticJob apart = relaxed_job({0, 1}, plan_on(one_node));
        apart.extensions = {{20, "n1", {2, 3}}};
        ElasticJob together = relaxed_job({0, 1, 2, 3}, plan_on(one_node));
        ElasticJob nodes = relaxed_job({0, 1}, plan_on(two_nodes));
        nodes.extensions = {{20, "n2", {0, 1}}};
        CHECK(ms(apart, *apart.plan) == ms(nodes, *nodes.plan));
        CHECK(ms(apart, *apart.plan) > ms(together, *together.plan));
        ElasticJob peers = together;  // one Slurm job, whose ranks do not reach each other
        peers.gpu_islands = {{"n1/10", {0, 0, 1, 1}}};
        CHECK(ms(peers, *peers.plan) == ms(nodes, *nodes.plan));
      }
  }

  TEST_CASE("no TP group of a growth is on GPUs of two Slurm jobs, and the winner's text tells them apart") {
    auto input = input_of({node("n1", 8)}, {});
    input.site = site_of(1, 8);
    ElasticJob one = relaxed_job({0, 1}, uniform_plan(1, 1, 8, 32, 4, {{"n1", 0}, {"n1", 1}}, 2));
    hold(input.cluster, one.anchor[0]);
    input.jobs = {one};
    input.coefficients[10] = talkative();
    const auto d = decide(input).at(0);
    CHECK(d.plan.gpu_count() == 8);
    check_groups(d.plan, one);
    CHECK(d.candidates.back().plan.ends_with("n1:2+6"));
    CAPTURE(d.reason);
    CHECK(d.reason.find("; those on n1 reach the job's other GPUs there over the network only") != std::string::npos);
  }

  TEST_CASE("a whole node is preferred to GPUs beside the job's own and to a scatter") {
    // n1: 2 of 4 idle; n2 and n3: 1; n4: 4.
    auto input = input_of({node("n1", 4), node("n2", 4), node("n3", 4), node("n4", 4)}, {});
    input.site = site_of(4, 4);
    ElasticJob one = relaxed_job({0, 1}, uniform_plan(1, 1, 8, 32, 4, {{"n1", 0}, {"n1", 1}}, 2));
    one.max_gpus = 6;
    hold(input.cluster, one.anchor[0]);
    hold(input.cluster, {98, "n2", {0, 1, 2}});
    hold(input.cluster, {99, "n3", {0, 1, 2}});
    input.jobs = {one};
    input.coefficients[10] = talkative();
    const auto d = decide(input).at(0);
    REQUIRE(d.acquire.size() == 1);
    CHECK(d.acquire[0].node == "n4");
    CHECK(d.acquire[0].gpus == 4);
  }

  TEST_CASE("a plan for fewer GPUs has no TP group over two Slurm jobs, whatever is known of the cluster") {
    std::vector<GpuId> gpus;
    for (int gpu = 0; gpu < 8; ++gpu) gpus.push_back({"n1", gpu});
    ElasticJob one = relaxed_job({0, 1, 2}, uniform_plan(8, 1, 8, 32, 4, gpus));
    one.extensions = {{20, "n1", {3, 4, 5}}, {21, "n1", {6, 7}}};
    const std::vector<GpuId> left{gpus.begin(), gpus.begin() + 6};
    PlanningBasis known{*site_of(1, 8), talkative()};
    for (const PlanningBasis* basis :
         {static_cast<const PlanningBasis*>(&known), static_cast<const PlanningBasis*>(nullptr)})
      for (const int tp : {1, 2}) {
        one.parallel.tp = tp;
        const auto plan = plan_on_subset(one, left, basis);
        REQUIRE(plan);
        check_groups(*plan, one);
      }
  }

  TEST_CASE("a TP degree that fits on no island that is left is kept across islands: slower, and not the job's end") {
    const std::vector<GpuId> gpus{{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}};
    ElasticJob one = relaxed_job({0, 1}, uniform_plan(1, 2, 8, 32, 4, gpus, 2));
    one.accuracy = Accuracy::bitwise;
    one.parallel.tp = 2;
    one.extensions = {{20, "n1", {2, 3}}};
    const auto plan = plan_on_subset(one, {gpus[0], gpus[2]}, nullptr);
    REQUIRE(plan);
    CHECK(plan->stages.front().tp == 2);
    CHECK(plan->gpu_count() == 2);
  }

  TEST_CASE("where the anchor's GPUs of its first node are lost, rank 0 goes to those of an extension there") {
    std::vector<GpuId> gpus;
    for (int gpu = 0; gpu < 4; ++gpu) gpus.push_back({"n1", gpu});
    gpus.push_back({"n2", 0});
    ElasticJob one = relaxed_job({0}, uniform_plan(5, 1, 8, 32, 4, gpus));
    one.extensions = {{20, "n1", {1, 2, 3}}, {21, "n2", {0}}};
    const PlanningBasis known{*site_of(2, 4), talkative()};
    const auto plan = plan_on_subset(one, {gpus.begin() + 1, gpus.end()}, &known);
    REQUIRE(plan);
    CHECK(plan->ranks().front().node == "n1");
  }

  TEST_CASE("trials of plans on a divided node try no TP group over two Slurm jobs") {
    std::vector<GpuId> gpus;
    for (int gpu = 0; gpu < 8; ++gpu) gpus.push_back({"n1", gpu});
    ElasticJob one = relaxed_job({0, 1, 2, 3}, uniform_plan(8, 1, 8, 32, 4, gpus));
    one.extensions = {{20, "n1", {4, 5, 6, 7}}};
    PlanTrials trials;
    trials.measured = {{*one.plan, 10}};
    trials.begun = {shape_of(*one.plan)};
    const auto site = site_of(1, 8);
    int tried = 0;
    for (int i = 0; i < 6; ++i) {
      const auto next = next_trial(trials, one, *site, talkative(), 8);
      if (!next) break;
      check_groups(next->plan, one);
      ++tried;
      trials.begun.push_back(shape_of(next->plan));
      trials.measured.push_back({next->plan, 10});
    }
    CHECK(tried > 2);
  }
}
