// The prediction of a real plan: its placement, its time and memory, and why it is not possible.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

// Two stages. Stage 0: 7 layers, TP 2, shares 3 and 1 on n0 and n1. Stage 1: 5 layers, TP 1, shares 2 and 2 on n0, n1.
Plan uneven() {
  return {
      16, 4, {{7, 2, {replica(3, 0, 0, 2), replica(1, 1, 0, 2)}}, {5, 1, {replica(2, 0, 2, 1), replica(2, 1, 2, 1)}}}};
}

}  // namespace

TEST_CASE("a plan is placed with its own layers and shares, classes apart, samples re-dealt at the boundary") {
  const Cluster mixed = cluster(4, true);
  const PlacedPlan placed = place_plan(mixed.topology, uneven());
  REQUIRE(placed.stages.size() == 2);
  const PlacedStage& first = placed.stages[0];
  CHECK(first.layers == 7);
  CHECK(first.shape.tp == 2);
  CHECK(first.shape.replicas == 2);
  CHECK(first.shape.class_count == 2);
  CHECK(first.shape.classes[0] == ReplicaClass{0, 0, 1});
  CHECK(first.shape.classes[1] == ReplicaClass{1, 0, 1});
  CHECK(first.shares.most[0] == 3);
  CHECK(first.shares.most[1] == 1);
  CHECK(first.shape.least_members == 1);
  CHECK(first.shape.level == 1);
  CHECK(first.gpus_per_node == 2);
  // Samples 0-2 leave n0, sample 3 leaves n1. Samples 0-1 arrive on n0, 2-3 on n1. Only sample 2
  // changes nodes.
  CHECK(first.next == Boundary{2, 1, 1});
  CHECK(placed.stages[1].next == Boundary{});
}

TEST_CASE("replicas of one class keep the largest share, and how many have it") {
  const Cluster plain = cluster();
  const Plan plan{8, 1, {{12, 1, {replica(2, 0, 0, 1), replica(3, 0, 1, 1), replica(3, 4 - 1, 0, 1)}}}};
  const PlacedPlan placed = place_plan(plain.topology, plan);
  CHECK(placed.stages[0].shape.class_count == 1);
  CHECK(placed.stages[0].shares.most[0] == 3);
  CHECK(placed.stages[0].shares.more[0] == 2);
  CHECK(placed.stages[0].shape.least_members == 1);
  CHECK(placed.stages[0].gpus_per_node == 2);
}

TEST_CASE("a prediction shows its parts, and they are the iteration") {
  const Cluster mixed = cluster(4, true);
  JobCoefficients coefficients = job();
  coefficients.gpu[0].overlap = coefficients.gpu[1].overlap = 2;
  const Prediction prediction = evaluate_plan(mixed.hardware, mixed.topology, coefficients, uneven());
  REQUIRE(prediction.stages.size() == 2);
  CHECK(prediction.feasible);
  // Stage 0. fast, 3 samples: 3 * 3 * 7 / 2 = 31.5. slow, 1 sample: 9 * 7 / 2 = 31.5 and 78.75 backward.
  // All-reduces: fast V' = 768 = 24 v0, log2 24 / 8 * 128 = 73.359: 7 * 2 * 768 / 73.359 = 146.567;
  //              slow V' = 256 = 8 v0, 3 / 8 * 128 = 48: 7 * 2 * 256 / 48 = 74.667.
  const StagePrediction& first = prediction.stages[0];
  CHECK(first.comp_fwd == doctest::Approx(31.5));
  CHECK(first.comp_bwd == doctest::Approx(78.75));
  CHECK(first.time.fwd == doctest::Approx(31.5 + 146.567).epsilon(1e-5));
  CHECK(first.time.bwd == doctest::Approx(63 + 146.567).epsilon(1e-5));
  // Gradients: 7000 / 2 * 2 (1 - 1/2) = 3500 bytes at 10 bytes/ms.
  CHECK(first.gradients == doctest::Approx(350));
  CHECK(first.sync == doctest::Approx(exposed_sync(first.time.bwd, 350, 2)));
  CHECK(first.optim == doctest::Approx(18.0 * 7 / 2));
  // Two samples within n0: 512 bytes at 50; one across: 256 at 10.
  CHECK(first.time.send == doctest::Approx(25.6));
  // Stage 1: slow, 2 samples, 5 layers, no TP: 90 and 225.
  CHECK(prediction.stages[1].time.fwd == doctest::Approx(90));
  CHECK(prediction.stages[1].time.bwd == doctest::Approx(225));
  CHECK(prediction.stages[1].comm_fwd == 0);
  for (const StagePrediction& stage : prediction.stages) {
    CHECK(stage.comp_fwd + stage.comm_fwd == doctest::Approx(stage.time.fwd));
    CHECK(stage.comp_bwd + stage.comm_bwd == doctest::Approx(stage.time.bwd));
    CHECK(stage.sync + stage.optim == doctest::Approx(stage.time.extra));
  }
  const std::vector<StageTime> times{first.time, prediction.stages[1].time};
  CHECK(prediction.printed_ms == printed_iteration(times, 4));
  CHECK(prediction.exact_ms == exact_iteration(times, 4));
}

TEST_CASE("rails are shared by the GPUs of a node, and switches above the leaf slow a boundary down") {
  Cluster wide = cluster(6);
  // n0 to n5: one level above the leaf; crossing halves. 4 samples of 256 bytes at 10 / 2.
  const Plan plan{16, 4, {{6, 2, {replica(4, 0, 0, 2)}}, {6, 2, {replica(4, 5, 0, 2)}}}};
  CHECK(stage_times(wide.hardware, job(), place_plan(wide.topology, plan))[0].send == doctest::Approx(1024 / 5.0));
  wide.hardware.kinds[0].nics = 1;
  CHECK(stage_times(wide.hardware, job(), place_plan(wide.topology, plan))[0].send == doctest::Approx(1024 / 2.5));
}

TEST_CASE("the exchange of a tied table's gradient takes the time of its bytes on the slowest way between its stages") {
  Cluster wide = cluster(6);
  JobCoefficients tied = job();
  tied.first.param_bytes = 8000;
  tied.last.param_bytes = 9000;
  tied.tied_bytes = 1;
  const auto extra = [&](const JobCoefficients& known, const Plan& plan) {
    const auto times = stage_times(wide.hardware, known, place_plan(wide.topology, plan));
    return std::pair(times.front().extra, times.back().extra);
  };
  JobCoefficients apart = tied;
  apart.tied_bytes = 0;
  const auto more = [&](const Plan& plan) {
    const auto with = extra(tied, plan), without = extra(apart, plan);
    return std::pair(with.first - without.first, with.second - without.second);
  };
  // Each of two TP ranks receives half of 8,000 bytes; n0 to n5 at 10 / 2, as crossing halves.
  const Plan far{16, 4, {{6, 2, {replica(4, 0, 0, 2)}}, {6, 2, {replica(4, 5, 0, 2)}}}};
  CHECK(more(far).first == doctest::Approx(800));
  CHECK(more(far).second == doctest::Approx(800));
  // Within n0 at 50.
  const Plan near{16, 4, {{6, 2, {replica(4, 0, 0, 2)}}, {6, 2, {replica(4, 0, 2, 2)}}}};
  CHECK(more(near).first == doctest::Approx(80));
  // One sends to both replicas of the other stage.
  const Plan fan{16, 4, {{6, 2, {replica(4, 0, 0, 2)}}, {6, 2, {replica(2, 0, 2, 2), replica(2, 0, 4, 2)}}}};
  CHECK(more(fan).first == doctest::Approx(160));
  // Sums of integers are of eight bytes, and what is exchanged is of four.
  tied.integer_sums = apart.integer_sums = true;
  CHECK(more(near).first == doctest::Approx(40));
  tied.integer_sums = apart.integer_sums = false;
  const Plan one{16, 4, {{12, 2, {replica(4, 0, 0, 2)}}}};
  CHECK(extra(tied, one).first <= extra(apart, one).first);  // one stage has both, and one table
}

TEST_CASE("memory is that of the fullest GPU, and what does not fit says where") {
  Cluster mixed = cluster(4, true);
  // slow has 500,000 bytes, fast 1,000,000; both hold a replica of stage 0. Peak of slow: share 1.
  const PlacedPlan placed = place_plan(mixed.topology, uneven());
  Prediction prediction = evaluate_plan(mixed.hardware, job(), placed);
  const MemoryParts fast = peak_memory(job(), 7, 3, 2, 2, {0, 2, 4}), slow = peak_memory(job(), 7, 1, 2, 2, {0, 2, 4});
  CHECK(prediction.stages[0].memory.peak == (fast.peak / 900000 > slow.peak / 450000 ? fast : slow).peak);
  mixed.hardware.types[1].memory_bytes = slow.peak / 0.9 * 0.99;
  mixed.hardware.types[1].name = "slow";
  prediction = evaluate_plan(mixed.hardware, job(), placed);
  CHECK_FALSE(prediction.feasible);
  CHECK(prediction.stages[0].memory.peak == slow.peak);
  CHECK(prediction.why_not.find("stage 0 needs") == 0);
  CHECK(prediction.why_not.find("type slow") != std::string::npos);
  CHECK(prediction.exact_ms > 0);
}

TEST_CASE("a plan that cannot be says why in one sentence and throws nothing") {
  const Cluster plain = cluster();
  const auto why = [&](const Plan& plan, const JobCoefficients& coefficients = job()) {
    const Prediction prediction = evaluate_plan(plain.hardware, plain.topology, coefficients, plan);
    CHECK_FALSE(prediction.feasible);
    return prediction.why_not;
  };
  Plan plan = uneven();
  plan.stages[0].layers = 6;
  CHECK(why(plan) == "the stages hold 11 layers, the model has 12");
  plan = uneven();
  plan.global_batch = 32;
  plan.micro_batches = 8;
  CHECK(why(plan) == "the plan's global batch is 32, the job's 16");
  plan = uneven();
  plan.stages[1].replicas[0].gpus[0].node = "n9";
  CHECK(why(plan) == "GPU n9/2: its node is unknown");
  plan = uneven();
  plan.stages[1].replicas[0].gpus[0].index = 8;
  CHECK(why(plan) == "GPU n0/8: the node has 8 GPUs");
  JobCoefficients odd = job();
  odd.tp_degrees = {1};
  CHECK(why(uneven(), odd) == "stage 0 has TP degree 2, which does not divide the model's heads");
  Topology two_types;
  two_types.add_node("n0", 0, {0, 1, 0, 0}, {});
  two_types.add_node("n1", 0, {0, 0, 0, 0}, {});
  CHECK(evaluate_plan(plain.hardware, two_types, job(), uneven()).why_not ==
        "GPU n0/1: another type than its replica's first GPU; a TP group has one type");
}
