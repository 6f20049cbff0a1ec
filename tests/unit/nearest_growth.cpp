#include <doctest/doctest.h>

#include "tests/unit/nearest_cases.hpp"

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
  // (4 + 1) slots of 4 layers before, (4 + 7) slots of one layer after.
  CHECK(d.predicted_step_seconds == doctest::Approx(11.0 / 20));
}

TEST_CASE("every candidate says why it lost, and the winner does not") {
  const auto d = decide(input_of({node("n1", 4), node("n2", 4)}, {job(10, "n1", {0, 1})})).at(0);
  int winners = 0;
  for (const Candidate& candidate : d.candidates) {
    CHECK(validate(candidate.plan, 8).empty());
    if (candidate.rejected_by.empty()) {
      ++winners;
      CHECK(candidate.plan == d.plan);
    }
  }
  CHECK(winners == 1);
  CHECK(d.candidates.size() == 6);
  CHECK(d.candidates[1].benefit == doctest::Approx(2.0 / 2 * (20.0 / 14 - 1)));
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

TEST_CASE("accuracy=bitwise changes the pipeline degree only; relaxed also replicates") {
  auto wide = job(10, "n1", {0, 1});
  wide.model.layers = 2;
  wide.plan = uniform_plan(2, 1, 2, 8, 4, {{"n1", 0}, {"n1", 1}});
  CHECK(decide(input_of({node("n1", 4)}, {wide})).empty());  // no third stage from two layers
  wide.accuracy = Accuracy::relaxed;
  const auto d = decide(input_of({node("n1", 4)}, {wide})).at(0);
  CHECK(d.plan.stages.size() == 2);
  CHECK(d.plan.stages[0].replicas.size() == 2);
  CHECK(d.plan.stages[0].replicas[0].share == 1);
  CHECK(d.plan.micro_batches == 4);
  CHECK(validate(d.plan, 2).empty());
}

TEST_CASE("bitwise keeps the replicas and shares that a job has") {
  auto replicated = job(10, "n1", {0, 1});
  replicated.plan = uniform_plan(1, 2, 8, 8, 4, {{"n1", 0}, {"n1", 1}});
  const auto d = decide(input_of({node("n1", 4), node("n2", 3)}, {replicated})).at(0);
  CHECK(d.plan.stages.size() == 3);  // of 5 more GPUs the odd one cannot be used
  for (const Stage& stage : d.plan.stages) CHECK(stage.replicas.size() == 2);
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

TEST_CASE("two jobs never get the same GPU") {
  const auto decisions =
      decide(input_of({node("n1", 4), node("n2", 4), node("n3", 2)}, {job(10, "n1", {0, 1}), job(11, "n2", {0, 1})}));
  std::map<std::string, int> asked;
  for (const Decision& d : decisions)
    for (const ExtensionRequest& request : d.acquire) asked[request.node] += request.gpus;
  CHECK(asked["n1"] <= 2);
  CHECK(asked["n2"] <= 2);
  CHECK(asked["n3"] <= 2);
}

TEST_CASE("a plan on a subset keeps rank 0 and the order, and uses fewer GPUs where layers are fewer") {
  auto grown = job(10, "n1", {0, 1});
  extend(grown, 20, "n2", {0, 1});
  extend(grown, 21, "n1", {2, 3});
  const auto plan = plan_on_subset(grown, {{"n1", 3}, {"n1", 2}, {"n1", 1}, {"n1", 0}});
  REQUIRE(plan);
  CHECK(plan->ranks() == std::vector<GpuId>{{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}});
  CHECK(validate(*plan, 8).empty());
  grown.model.layers = 2;
  const auto few = plan_on_subset(grown, {{"n1", 0}, {"n1", 1}, {"n1", 2}});
  REQUIRE(few);
  CHECK(few->gpu_count() == 2);
  CHECK_FALSE(plan_on_subset(grown, {}));
}
