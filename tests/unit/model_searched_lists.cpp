// Lists that are searched for a running job, on its profile.
#include "planner/core/model/searched_lists.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/check.hpp"
#include "planner/core/pipeline/order.hpp"
#include "planner/core/pipeline_form.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

Plan stages_of(const std::vector<int>& layers, int micro_batches, const char* schedule = "", int chunks = 1) {
  Plan plan{16, micro_batches, {}};
  for (std::size_t s = 0; s < layers.size(); ++s)
    plan.stages.push_back({layers[s], 1, {replica(16 / micro_batches, 0, static_cast<int>(s), 1)}});
  return *schedule == '\0' ? plan : with_form(plan, pipeline_form(schedule, chunks));
}

struct Case {
  Cluster cluster = model_cases::cluster();
  JobCoefficients known = known_job({});
  Profile profile;

  explicit Case(const Plan& plan) {
    known.deferred = 0.5;
    cluster.hardware.types[0].memory_bytes = 1e12;
    profile = profile_of(cluster, known, plan);
    for (ReplicaProfile& one : profile.replicas) one.spread = 0.001;
  }
  ListProblem problem() const { return list_problem(cluster.hardware, cluster.topology, profile); }
};

double sum_of(const ListProblem& problem, int stage, double pipeline::ChunkCosts::*time) {
  double sum = 0;
  for (std::size_t c = 0; c < problem.search.costs.size(); ++c)
    if (problem.search.rank_of_chunk[c] == stage) sum += problem.search.costs[c].*time;
  return sum;
}

std::string refusal(const Plan& plan) {
  try {
    (void)Case(plan).problem();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("searched lists: a stage's chunks take together what the stage measured") {
  Case one(stages_of({3, 3, 3, 3}, 4, "zb-v", 2));
  // What no model expects: a slow third stage, whose work on weights is short.
  one.profile.replicas[2].fwd *= 3;
  one.profile.replicas[2].bwd_weights /= 4;
  const ListProblem problem = one.problem();
  REQUIRE(problem.search.costs.size() == 8);
  for (int s = 0; s < 4; ++s) {
    const ReplicaProfile& measured = one.profile.replicas[static_cast<std::size_t>(s)];
    CHECK(sum_of(problem, s, &pipeline::ChunkCosts::forward) == doctest::Approx(measured.fwd));
    CHECK(sum_of(problem, s, &pipeline::ChunkCosts::backward_weight) == doctest::Approx(measured.bwd_weights));
    CHECK(sum_of(problem, s, &pipeline::ChunkCosts::backward_input) ==
          doctest::Approx(measured.bwd - measured.bwd_weights));
  }
  // Two layers of three are in one of the chunks of an inner stage.
  CHECK(problem.search.costs[1].forward / problem.search.costs[6].forward ==
        doctest::Approx(static_cast<double>(one.profile.plan.chunks[1].layers) / one.profile.plan.chunks[6].layers));
}

TEST_CASE("searched lists: with room for activations they beat zb-v where micro-batches are few, and are sound") {
  const Case one(stages_of({3, 3, 3, 3}, 4, "zb-v", 2));
  const ListProblem problem = one.problem();
  const SearchedLists found = search_lists(problem);
  CHECK(pipeline::check(found.lists).empty());
  CHECK(found.lists.rank_of_chunk == problem.search.rank_of_chunk);
  CHECK(found.lists.micro_batches == 4);
  CHECK(found.gain() > 0.04);
  CHECK(found.ms < found.present_ms);
  CHECK(found.ms <= found.generator_ms);
  // The same answer every time.
  CHECK(search_lists(problem).lists == found.lists);
}

TEST_CASE("searched lists: no GPU holds more than it has room for, and never less than the running lists is allowed") {
  Case one(stages_of({3, 3, 3, 3}, 4, "zb-v", 2));
  one.cluster.hardware.types[0].memory_bytes = 1;  // the model leaves nothing: it may be wrong, since the job runs
  const ListProblem problem = one.problem();
  const SearchedLists found = search_lists(problem);
  const auto before = pipeline::order_of(problem.present), after = pipeline::order_of(found.lists);
  for (std::size_t s = 0; s < 4; ++s) {
    const double held = pipeline::peak_of(before[s], problem.search.costs);
    CHECK(problem.search.memory[s] == doctest::Approx(held));
    CHECK(pipeline::peak_of(after[s], problem.search.costs) <= held * (1 + 1e-9));
  }
  CHECK(found.ms <= found.present_ms);
  CHECK(Case(stages_of({3, 3, 3, 3}, 4, "zb-v", 2)).problem().search.memory[0] > 2 * problem.search.memory[0]);
}

TEST_CASE("searched lists: an input's gradient with the weights' right behind it is a backward pass again") {
  const Case one(stages_of({6, 6}, 2));
  const SearchedLists found = search_lists(one.problem());
  for (const auto& list : found.lists.actions)
    for (std::size_t i = 0; i + 1 < list.size(); ++i)
      CHECK_FALSE(
          (list[i].kind == pipeline::Compute::backward_input &&
           list[i + 1] == pipeline::Action{pipeline::Compute::backward_weight, list[i].chunk, list[i].micro_batch}));
}

TEST_CASE("searched lists: with recomputation the weights' gradients come with the inputs'") {
  Case one(stages_of({3, 3, 3, 3}, 4));
  Training training;
  training.recompute = true;
  one.known = known_job(training);
  one.profile = profile_of(one.cluster, one.known, one.profile.plan);
  for (ReplicaProfile& replica : one.profile.replicas) replica.bwd_weights = 0;
  const ListProblem problem = one.problem();
  for (const pipeline::ChunkCosts& cost : problem.search.costs) {
    CHECK(cost.freed_by_input == cost.activation);
    CHECK(cost.backward_weight < 1e-6 * cost.backward_input);
  }
  CHECK(search_lists(problem).gain() >= 0);
}

TEST_CASE("searched lists: plans without an order to search are refused") {
  CHECK(refusal(stages_of({12}, 4)).find("one stage") != std::string::npos);
  Plan odd = stages_of({6, 6}, 4);
  odd.chunks = {{1, 6}, {0, 6}};
  CHECK(refusal(odd).find("no way that a known schedule has") != std::string::npos);
  Plan huge = stages_of({6, 6}, 16);
  huge.global_batch = huge.micro_batches = 1 << 16;
  for (Stage& stage : huge.stages) stage.replicas.front().share = 1;
  CHECK(refusal(huge).find("operations in a step") != std::string::npos);
}
