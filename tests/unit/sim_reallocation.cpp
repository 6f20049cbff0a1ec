// From counts of GPUs to a policy's acts.
#include <doctest/doctest.h>

#include "planner/sim/policies/reallocation.hpp"
#include "planner/sim/policies/regular_plan.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim;
using namespace espalier::sim_cases;

namespace {

// Two nodes of four GPUs. A job holds the GPUs that the test gives it.
struct Moment {
  explicit Moment(int jobs) : world(2, 4), states(static_cast<std::size_t>(jobs)) {
    input.cluster = world.cluster;
    input.site = world.site;
    for (int j = 0; j < jobs; ++j) {
      SimulatedJobState& state = states[static_cast<std::size_t>(j)];
      state.id = static_cast<JobId>(j + 1);
      state.kind = &world.kinds.front();
      state.coefficients = &state.kind->coefficients;
      shown.push_back(&state);
    }
  }
  void hold(JobId job, std::size_t node, const std::vector<int>& gpus) {
    std::vector<GpuId> ids;
    for (const int gpu : gpus) {
      input.cluster.nodes[node].gpu_owner[static_cast<std::size_t>(gpu)] = job;
      ids.push_back({input.cluster.nodes[node].name, gpu});
    }
    states[job - 1].plan = uniform_plan(1, static_cast<int>(ids.size()), 8, 64, 1, ids);
  }
  std::vector<Act> acts(const std::vector<int>& gpus) const {
    const SimulatedView view{input, shown};
    const auto pools = gpu_pools(input.cluster, *input.site);
    std::vector<Wanted> wanted;
    for (const int count : gpus) wanted.push_back({0, count});
    return reallocate(
        view, pools, held_in_pools(view, pools), wanted,
        [&](const SimulatedJobState& job, const std::vector<Piece>& pieces) -> std::optional<PlanSketch> {
          const PlanBounds bounds;
          Evaluator evaluator(Problem{input.site->hardware, input.site->topology, *job.coefficients, bounds});
          const auto plan = regular_plan(evaluator, {1, count_gpus(pieces), 1}, pieces);
          if (!plan) return std::nullopt;
          return plan->sketch;
        });
  }
  std::vector<GpuId> gpus_of(const Act& act) const {
    auto gpus = act.plan->ranks();
    std::sort(gpus.begin(), gpus.end());
    return gpus;
  }

  World world;
  std::vector<SimulatedJobState> states;
  PlanningInput input;
  std::vector<const SimulatedJobState*> shown;
};

}  // namespace

TEST_SUITE("reallocation") {
  TEST_CASE("who wants what it has is left alone") {
    Moment now(2);
    now.hold(1, 0, {1, 3});
    now.hold(2, 1, {0});
    CHECK(now.acts({2, 1}).empty());
  }

  TEST_CASE("a job that grows keeps its GPUs, and one that starts takes the first idle ones of the fullest node") {
    Moment now(2);
    now.hold(1, 0, {2});
    const auto acts = now.acts({2, 2});
    REQUIRE(acts.size() == 2);
    CHECK(acts[0].job == 1);
    CHECK(now.gpus_of(acts[0]) == std::vector<GpuId>{{"n1", 0}, {"n1", 2}});
    CHECK(now.gpus_of(acts[1]) == std::vector<GpuId>{{"n1", 1}, {"n1", 3}});
  }

  TEST_CASE("who is to have nothing stops, who waits and gets nothing is not named") {
    Moment now(3);
    now.hold(1, 0, {0, 1});
    const auto acts = now.acts({0, 8, 0});
    REQUIRE(acts.size() == 2);
    CHECK(acts[0].job == 1);
    CHECK_FALSE(acts[0].plan);
    CHECK(acts[1].job == 2);
    CHECK(acts[1].plan->gpu_count() == 8);
  }

  TEST_CASE("a job that is being redeployed stays, whatever is wanted for it") {
    Moment now(2);
    now.hold(1, 0, {0});
    now.states[0].redeploying = true;
    const auto acts = now.acts({0, 4});
    REQUIRE(acts.size() == 1);
    CHECK(now.gpus_of(acts[0]).front().node == "n2");
    // A job cannot get the whole cluster.
    CHECK(now.acts({0, 8}).empty());
  }

  TEST_CASE("GPUs of jobs that are not the policy's are not given away") {
    Moment now(1);
    for (JobId& owner : now.input.cluster.nodes[0].gpu_owner) owner = 77;
    const auto acts = now.acts({4});
    REQUIRE(acts.size() == 1);
    CHECK(now.gpus_of(acts[0]).front().node == "n2");
  }

  TEST_CASE("who cannot run on what it gets stops") {
    Moment now(1);
    now.hold(1, 0, {0});
    // More replicas than samples.
    now.world.kinds.front().coefficients.global_batch = 1;
    const auto acts = now.acts({2});
    REQUIRE(acts.size() == 1);
    CHECK_FALSE(acts[0].plan);
  }
}
