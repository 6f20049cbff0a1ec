#include <doctest/doctest.h>

#include <functional>

#include "planner/core/error.hpp"
#include "torchrt/device/gpu_islands.hpp"
#include "torchrt/handoff/gpu_reach.hpp"
#include "torchrt/handoff/handoff_plan.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

Plan over(const std::vector<GpuId>& gpus) { return uniform_plan(static_cast<int>(gpus.size()), 1, 4, 8, 2, gpus); }

// Replicas of two tensor-parallel GPUs each.
Plan in_pairs(const std::vector<GpuId>& gpus) {
  return uniform_plan(1, static_cast<int>(gpus.size()) / 2, 4, 8, 2, gpus, 2);
}

std::vector<std::string> nodes(const Plan& plan) {
  std::vector<std::string> list;
  for (const GpuId& gpu : plan.ranks()) list.push_back(gpu.node);
  return list;
}

HandoffPlan between(const Plan& before, const Plan& after, const wire::GpuJobs& jobs) {
  Config config;
  ModelConfig& model = config.model;
  model.layers = 4;
  model.hidden = 16;
  model.heads = model.key_value_heads = 2;
  model.head_size = 8;
  model.intermediate = 64;
  model.sequence = model.positions = 8;
  return plan_handoff(config, as_reached(before, DeviceKind::cuda, jobs), as_reached(after, DeviceKind::cuda, jobs),
                      DeviceKind::cuda, true);
}

}  // namespace

TEST_CASE("GPUs of two Slurm jobs on one node are as on two nodes") {
  const Plan plan = over({{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n2", 0}});
  const wire::GpuJobs jobs{{"n1/0", 7}, {"n1/1", 7}, {"n1/2", 8}, {"n2/0", 8}};
  const std::vector<std::string> found = nodes(as_reached(plan, DeviceKind::cuda, jobs));
  CHECK(found[0] == found[1]);
  CHECK(found[0] != found[2]);
  CHECK(found[2] != found[3]);
  SUBCASE("host memory is reached from any job of the node") { CHECK(as_reached(plan, DeviceKind::cpu, jobs) == plan); }
  SUBCASE("without knowledge of jobs a node is one") { CHECK(as_reached(plan, DeviceKind::cuda, {}) == plan); }
}

TEST_CASE("a GPU that no job of ours has any more is out of reach") {
  const Plan plan = over({{"n1", 0}, {"n1", 1}, {"n1", 2}});
  const std::vector<std::string> found = nodes(as_reached(plan, DeviceKind::cuda, {{"n1/0", 7}}));
  CHECK(found[0] != found[1]);
  CHECK(found[1] != found[2]);
}

TEST_CASE("host memory that was left on a node is read by the ranks of any Slurm job there") {
  const Plan lost = over({{"n1", 0}, {"n1", 2}, {"n2", 0}});
  const Plan after = over({{"n2", 4}, {"n1", 0}, {"n1", 1}});
  const wire::GpuJobs jobs{{"n1/0", 7}, {"n1/1", 7}, {"n1/2", 8}, {"n2/4", 9}};
  const std::vector<std::string> places = nodes(as_reached(after, DeviceKind::cuda, jobs));
  const std::vector<std::string> found = nodes(host_memory_as_reached(lost, after, DeviceKind::cuda, jobs));
  CHECK(found == std::vector<std::string>{places[1], places[1], places[0]});
  SUBCASE("the job that left it is preferred") {
    const Plan both = over({{"n1", 0}, {"n1", 2}});
    CHECK(nodes(host_memory_as_reached(lost, both, DeviceKind::cuda, jobs))[1] ==
          nodes(as_reached(both, DeviceKind::cuda, jobs))[1]);
  }
  SUBCASE("on a node without new ranks nobody reads it") {
    const Plan elsewhere = over({{"n2", 4}});
    CHECK(nodes(host_memory_as_reached(lost, elsewhere, DeviceKind::cuda, jobs))[0] !=
          nodes(as_reached(elsewhere, DeviceKind::cuda, jobs))[0]);
  }
  SUBCASE("without GPUs a node is one") {
    CHECK(host_memory_as_reached(lost, after, DeviceKind::cpu, jobs) == lost);
    CHECK(host_memory_as_reached(lost, after, DeviceKind::cuda, {}) == lost);
  }
}

TEST_CASE("between two jobs of a node state is sent, inside a job it is copied") {
  const Plan one = over({{"n1", 0}}), two = over({{"n1", 0}, {"n1", 1}});
  const HandoffPlan across = between(one, two, {{"n1/0", 7}, {"n1/1", 8}});
  CHECK(across.transfer.bytes_sent() > 0);
  CHECK(across.transfer.bytes_copied() == 0);
  const HandoffPlan inside = between(one, two, {{"n1/0", 7}, {"n1/1", 7}});
  CHECK(inside.transfer.bytes_sent() == 0);
  CHECK(inside.transfer.bytes_copied() == across.transfer.bytes_sent());
  CHECK(inside.transfer.bytes_adopted() == across.transfer.bytes_adopted());
}

TEST_CASE("what lies with a job that leaves is given in the old world") {
  const Plan two = over({{"n1", 0}, {"n1", 1}}), one = over({{"n1", 0}});
  const HandoffPlan plan = between(two, one, {{"n1/0", 7}});
  CHECK_FALSE(plan.routes.old_world.empty());
  CHECK(plan.routes.new_world.empty());
}

TEST_CASE("a TP group's GPUs that no job of ours has any more: the state of the other group is enough") {
  const Plan two = in_pairs({{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}}), one = in_pairs({{"n1", 0}, {"n1", 1}});
  const wire::GpuJobs jobs{{"n1/0", 7}, {"n1/1", 7}};
  const HandoffPlan plan = between(two, one, jobs);
  CHECK(plan.transfer.adoptions().size() == 12);  // six units on each of two ranks
  for (const Adoption& adoption : plan.transfer.adoptions()) CHECK(adoption.old_rank == adoption.rank);
  CHECK(plan.transfer.bytes_copied() == 0);
  CHECK(plan.transfer.bytes_sent() == 0);
}

TEST_CASE("GPUs of a TP group that do not reach each other: each sends its own part, and gets its own part") {
  const Plan one = in_pairs({{"n1", 0}, {"n1", 1}}), two = in_pairs({{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}});
  const wire::GpuJobs islands{{"n1/0", 1}, {"n1/1", 2}, {"n1/2", 3}, {"n1/3", 4}},
      job{{"n1/0", 7}, {"n1/1", 7}, {"n1/2", 7}, {"n1/3", 7}};
  const HandoffPlan apart = between(one, two, islands), together = between(one, two, job);
  CHECK(together.transfer.bytes_sent() == 0);
  CHECK(together.transfer.bytes_copied() > 0);
  CHECK(apart.transfer.copies().empty());
  // A rank with both ends of the model gets the tied table once, and copies it to the other end.
  CHECK(apart.transfer.bytes_sent() + apart.transfer.bytes_copied() == together.transfer.bytes_copied());
  CHECK(apart.transfer.bytes_sent() > apart.transfer.bytes_copied());
  CHECK(apart.transfer.bytes_adopted() == together.transfer.bytes_adopted());
}

TEST_CASE("a layout does not depend on where memory lies, and only a plan that is whole has one") {
  const Plan plan = in_pairs({{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}});
  Plan reached = as_reached(plan, DeviceKind::cuda, {{"n1/0", 7}});
  CHECK(nodes(reached)[0] != nodes(reached)[1]);
  CHECK_THROWS_AS(make_layout(reached, 4), Error);
  CHECK(make_memory_layout(reached, 4).ranks == make_layout(plan, 4).ranks);
  CHECK_THROWS_AS(make_memory_layout(reached, 5), Error);
  reached.stages.front().replicas.front().gpus.pop_back();
  CHECK_THROWS_AS(make_memory_layout(reached, 4), Error);
}

TEST_CASE("islands: GPUs that all reach each other; empty where all do") {
  const auto all = [](int, int) { return true; };
  const auto none = [](int, int) { return false; };
  CHECK(islands(0, none).empty());
  CHECK(islands(1, none).empty());
  CHECK(islands(4, all).empty());
  CHECK(islands(3, none) == std::vector<int>{0, 1, 2});
  CHECK(islands(4, [](int a, int b) { return a % 2 == b % 2; }) == std::vector<int>{0, 1, 0, 1});
  const auto neighbours = [](int a, int b) { return a - b == 1 || b - a == 1; };
  CHECK(islands(4, neighbours) == std::vector<int>{0, 0, 1, 1});
  CHECK(islands(2, std::less<>()) == std::vector<int>{0, 1});  // one way only
}
