// Which job grows onto which GPUs, and how the decision is recorded.
#include <doctest/doctest.h>

#include <set>

#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("idle GPUs on the job's own node and elsewhere become stages, one extension per node") {
  const auto decisions = decide(input_of({node("n1", 4), node("n2", 4)}, {job(10, "n1", {0, 1})}));
  REQUIRE(decisions.size() == 1);
  const Decision& d = decisions[0];
  CHECK(d.kind == DecisionKind::grow);
  REQUIRE(d.acquire.size() == 2);
  CHECK(d.acquire[0].node == "n1");
  CHECK(d.acquire[0].gpus == 2);
  CHECK(d.acquire[1].node == "n2");
  CHECK(d.acquire[1].gpus == 4);
  CHECK(d.plan.stages.size() == 8);
  CHECK(validate(d.plan, 8).empty());
  CHECK(d.plan.ranks().front() == GpuId{"n1", 0});
  // Before: (4 + 1) slots of 4 layers. After: (4 + 7) slots of one layer. The LM head adds a part
  // of a layer.
  CHECK(d.predicted_step_seconds == doctest::Approx(11.0 / 20).epsilon(0.1));
}

TEST_CASE("nodes that are closed to a job are left to others") {
  const ElasticJob limited = job(10, "n1", {0, 1});
  auto input = input_of({node("n1", 4), node("n2", 4), node("n3", 2)}, {limited});
  const auto close = [&](std::vector<std::string> names) {
    input.closed[10] = std::make_shared<const std::vector<std::string>>(std::move(names));
  };
  close({"n2", "no such node"});
  const auto decisions = decide(input);
  REQUIRE(decisions.size() == 1);
  REQUIRE(decisions[0].acquire.size() == 2);
  CHECK(decisions[0].acquire[0].node == "n1");
  CHECK(decisions[0].acquire[1].node == "n3");
  close({"n1", "n2", "n3"});
  CHECK(decide(input).empty());
}

TEST_CASE("every candidate says why it lost, and the winner does not") {
  const auto d = decide(input_of({node("n1", 4), node("n2", 4)}, {job(10, "n1", {0, 1})})).at(0);
  int winners = 0;
  for (const Candidate& candidate : d.candidates) {
    CAPTURE(candidate.plan);
    CHECK(candidate.gpus > 0);
    CHECK(candidate.predicted_step_seconds > 0);
    if (!candidate.rejected_by.empty()) continue;
    ++winners;
    CHECK(candidate.gpus == 6);
    CHECK(candidate.predicted_step_seconds == d.predicted_step_seconds);
  }
  CHECK(winners == 1);
  // With two more stages: 14 slots instead of 20, on twice the GPUs.
  REQUIRE(d.candidates.size() >= 2);
  CHECK(d.candidates[1].gpus == 2);
  CHECK(d.candidates[1].benefit == doctest::Approx(2.0 / 2 * (20.0 / 14 - 1)).epsilon(0.1));
}

TEST_CASE("an extension gets a share of CPUs and memory, never the whole node") {
  const auto d = decide(input_of({node("n1", 2), node("n2", 4)}, {job(10, "n1", {0, 1}, 6)})).at(0);
  REQUIRE(d.acquire.size() == 1);
  CHECK(d.acquire[0].cpus >= d.acquire[0].gpus);
  CHECK(d.acquire[0].cpus < 16);
  CHECK(d.acquire[0].memory_mb > 0);
  CHECK(d.acquire[0].memory_mb < 16000);
  CHECK(d.acquire[0].lease_minutes == 60);
}

TEST_CASE("GPUs without a CPU to go with them are not taken") {
  auto input = input_of({node("n1", 2), node("n2", 4)}, {job(10, "n1", {0, 1})});
  input.cluster.nodes[1].free_cpus = 2;
  const auto d = decide(input).at(0);
  REQUIRE(d.acquire.size() == 1);
  CHECK(d.acquire[0].gpus == 2);
  CHECK(d.acquire[0].cpus == 2);
}

TEST_CASE("nodes below the anchor's leaf switch come before others") {
  const auto d = decide(input_of({node("n1", 2, "leaf1"), node("n2", 2, "leaf2"), node("n3", 2, "leaf1")},
                                 {job(10, "n1", {0, 1}, 4)}))
                     .at(0);
  REQUIRE(d.acquire.size() == 1);
  CHECK(d.acquire[0].node == "n3");
}

TEST_CASE("a job where workers died on a GPU is not offered its node while it is idle; others are") {
  auto hurt = job(10, "n1", {0, 1});
  hurt.unfit = {{"n2", 3}, {"n3", 0}, {"elsewhere", 0}};
  auto input = input_of({node("n1", 2), node("n2", 4), node("n3", 4)}, {hurt});
  hold(input.cluster, {7, "n3", {0}});
  const auto d = decide(input).at(0);
  REQUIRE(d.acquire.size() == 1);
  CHECK(d.acquire[0].node == "n3");
  CHECK(d.acquire[0].gpus == 3);
  input.jobs[0].unfit.clear();
  CHECK(decide(input).at(0).acquire.size() == 2);
}

TEST_CASE("a job takes the idle GPUs of a node where it has an extension already") {
  auto one = job(10, "n1", {0, 1});
  extend(one, 20, "n2", {0, 1});
  const auto d = decide(input_of({node("n1", 2), node("n2", 4)}, {one}));
  REQUIRE(d.size() == 1);
  REQUIRE(d[0].acquire.size() == 1);
  CHECK(d[0].acquire[0].node == "n2");
  CHECK(d[0].plan.gpu_count() == 4 + d[0].acquire[0].gpus);
}

TEST_CASE("whatever the accuracy, what cannot become a deeper pipeline is replicated") {
  for (const Accuracy accuracy : {Accuracy::bitwise, Accuracy::relaxed}) {
    auto wide = job(10, "n1", {0, 1});
    wide.model.layers = 2;  // two layers allow no third stage
    wide.model.global_batch = 8;
    wide.plan = uniform_plan(2, 1, 2, 8, 4, wide.plan->ranks());
    wide.accuracy = accuracy;
    const auto d = decide(input_of({node("n1", 4)}, {wide})).at(0);
    CHECK(d.plan.gpu_count() == 4);
    CHECK(d.plan.stages[0].replicas.size() > 1);
    CHECK(validate(d.plan, 2).empty());
  }
}

TEST_CASE("bitwise keeps the TP degree and the number of micro-batches") {
  auto replicated = job(10, "n1", {0, 1});
  replicated.model.global_batch = 8;
  replicated.plan = uniform_plan(1, 2, 8, 8, 4, {{"n1", 0}, {"n1", 1}});
  const auto d = decide(input_of({node("n1", 4), node("n2", 3)}, {replicated})).at(0);
  CHECK(d.plan.gpu_count() > 2);
  CHECK(d.plan.micro_batches == 4);
  for (const Stage& stage : d.plan.stages) CHECK(stage.tp == 1);
}

TEST_CASE("who is held, unmeasured, reconfiguring or cooling down does not grow") {
  const auto grows = [](auto change) {
    auto one = job(10, "n1", {0, 1});
    change(one);
    return !decide(input_of({node("n1", 4)}, {one})).empty();
  };
  CHECK(grows([](ElasticJob&) {}));
  CHECK_FALSE(grows([](ElasticJob& j) { j.held = true; }));
  CHECK_FALSE(grows([](ElasticJob& j) { j.step_seconds = 0; }));
  CHECK_FALSE(grows([](ElasticJob& j) { j.plan.reset(); }));
  CHECK_FALSE(grows([](ElasticJob& j) { j.model.layers = 0; }));
  CHECK_FALSE(grows([](ElasticJob& j) { j.phase = JobPhase::starting; }));
  CHECK_FALSE(grows([](ElasticJob& j) { j.max_gpus = 2; }));
  auto input = input_of({node("n1", 4)}, {job(10, "n1", {0, 1})});
  input.last_change[10] = input.now - 9;
  CHECK(decide(input).empty());
  input.last_change[10] = input.now - 11;
  CHECK(decide(input).size() == 1);
}

TEST_CASE("GPUs that links between stages make useless to one job go to the next one") {
  // Job 10 ends soon, so it is asked first. The idle GPUs are far from it and beside job 11's.
  auto input = input_of({node("n1", 2), node("n2", 4)}, {job(10, "n1", {0, 1}), job(11, "n2", {0, 1})});
  input.jobs[0].total_steps = 1000;
  input.jobs[1].total_steps = 5000;
  CHECK(decide(input).at(0).job == 10);
  auto site = std::make_shared<Site>(*neutral_site(input.cluster));
  site->hardware.jobs_reach = true;
  for (NodeKind& kind : site->hardware.kinds) kind.nic_bandwidth /= 10'000;
  input.site = site;
  const auto scheduler = make_suika_scheduler(bold());
  const auto decisions = scheduler->decide(input);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].job == 11);
  REQUIRE(scheduler->weighed().size() == 1);
  CHECK(scheduler->weighed()[0].job == 10);
  CHECK(scheduler->weighed()[0].verdict ==
        "links between the stages would make it too slow on the idle GPUs to pay for the change");
}

TEST_CASE("two jobs never get the same GPU") {
  const auto decisions =
      decide(input_of({node("n1", 4), node("n2", 4), node("n3", 2)}, {job(10, "n1", {0, 1}), job(11, "n2", {0, 1})}));
  REQUIRE(decisions.size() == 2);
  std::set<GpuId> taken;
  for (const Decision& d : decisions)
    for (const GpuId& gpu : d.plan.ranks()) CHECK(taken.insert(gpu).second);
}

TEST_CASE("a model of which only the number of layers is known is planned all the same") {
  auto bare = job(10, "n1", {0, 1});
  bare.model = {};
  bare.model.layers = 8;
  const auto d = decide(input_of({node("n1", 4)}, {bare})).at(0);
  CHECK(d.plan.stages.size() == 4);
  CHECK(d.predicted_step_seconds < 1);
}

TEST_CASE("a job that claims GPUs that the cluster does not have is noted, and the others are planned") {
  auto liar = job(9, "n1", {0, 1});
  liar.plan->stages[1].replicas[0].gpus = {{"elsewhere", 0}};
  auto input = input_of({node("n1", 2), node("n2", 4)}, {liar, job(10, "n2", {0, 1})});
  const auto scheduler = make_suika_scheduler(bold());
  const auto decisions = scheduler->decide(input);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].job == 10);
  REQUIRE(scheduler->weighed().size() == 1);
  CHECK(scheduler->weighed()[0].job == 9);
  CHECK(scheduler->weighed()[0].verdict.find("cannot be scored") != std::string::npos);
}

TEST_CASE("a plan on a subset keeps rank 0 and who holds which layers, and uses fewer GPUs where layers are fewer") {
  auto grown = job(10, "n1", {0, 1});
  extend(grown, 20, "n2", {0, 1});
  extend(grown, 21, "n1", {2, 3});
  const auto plan = plan_on_subset(grown, {{"n1", 3}, {"n1", 2}, {"n1", 1}, {"n1", 0}});
  REQUIRE(plan);
  const auto ranks = plan->ranks();
  REQUIRE(ranks.size() == 4);
  CHECK(ranks[0] == GpuId{"n1", 0});
  CHECK(ranks[1] == GpuId{"n1", 1});
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()).size() == 4);
  CHECK(validate(*plan, 8).empty());
  auto shallow = job(10, "n1", {0, 1});
  deepen(shallow, 2);
  const auto few = plan_on_subset(shallow, {{"n1", 0}, {"n1", 1}, {"n1", 2}});
  REQUIRE(few);
  CHECK(few->gpu_count() == 2);
  CHECK_FALSE(plan_on_subset(grown, {}));
}

TEST_CASE("no plan does without a GPU on the node of the job's own first one") {
  auto grown = job(10, "n1", {0, 1});
  extend(grown, 20, "n2", {0, 1, 2});
  CHECK_FALSE(plan_on_subset(grown, {{"n2", 0}, {"n2", 1}, {"n2", 2}}));
  const auto plan = plan_on_subset(grown, {{"n2", 0}, {"n2", 1}, {"n2", 2}, {"n1", 1}});
  REQUIRE(plan);
  CHECK(plan->ranks().front() == GpuId{"n1", 1});
}

TEST_CASE("GPUs of an index that no node has give no plan, and no memory is taken for the ones below") {
  const auto grown = job(10, "n1", {0, 1});
  CHECK_FALSE(plan_on_subset(grown, {{"n1", 0}, {"n1", 2000000000}}));
  CHECK_FALSE(plan_on_subset(grown, {{"n1", 0}, {"n1", -1}}));
  auto liar = grown;
  liar.plan->stages[1].replicas[0].gpus[0].index = 2000000000;
  CHECK_FALSE(plan_on_subset(liar, {{"n1", 0}}));
}
