#include <doctest/doctest.h>

#include <random>

#include "planner/core/in_chunks.hpp"
#include "tests/unit/torchrt_schedule_cases.hpp"

using namespace espalier;

namespace {

ParallelLimits limits(int chunks, bool v_shaped = false) {
  ParallelLimits made;
  made.chunks = chunks;
  made.v_shaped = v_shaped;
  return made;
}

std::vector<GpuId> gpus(int count) {
  std::vector<GpuId> list;
  for (int i = 0; i < count; ++i) list.push_back({"n1", i});
  return list;
}

}  // namespace

TEST_CASE("chunks go round the stages, or as a V; the edges take fewer layers") {
  const Plan plan = uniform_plan(2, 1, 7, 8, 4, gpus(2));  // 4+3 layers
  CHECK(in_chunks(plan, limits(2)).chunks == std::vector<Chunk>{{0, 2}, {1, 2}, {0, 2}, {1, 1}});
  CHECK(in_chunks(plan, limits(2, true)).chunks == std::vector<Chunk>{{0, 2}, {1, 2}, {1, 1}, {0, 2}});
  CHECK(in_chunks(uniform_plan(2, 1, 2, 8, 4, gpus(2)), limits(2)).chunks ==
        std::vector<Chunk>{{0, 0}, {1, 1}, {0, 1}, {1, 0}});
}

TEST_CASE("any plan stays valid in chunks, with its stages' layers and GPUs") {
  std::mt19937 random(8);
  int cut = 0, fewer = 0;
  for (int round = 0; round < 500; ++round) {
    const Plan plan = torchrt::any_plan(random, 7);
    const ParallelLimits wanted = limits(1 + static_cast<int>(random() % 5), false);
    const Plan made = in_chunks(plan, wanted);
    CAPTURE(describe(made));
    CHECK(validate(made, 7).empty());
    CHECK(made.stages == plan.stages);
    if (made.chunks.empty()) continue;
    CHECK(made.chunks.size() % plan.stages.size() == 0);
    ++cut;
    fewer += made.chunks.size() < plan.stages.size() * static_cast<std::size_t>(wanted.chunks);
  }
  CHECK(cut > 200);
  CHECK(fewer > 20);
}

TEST_CASE("a plan that has chunks, or is invalid, stays as it is") {
  Plan plan = uniform_plan(2, 1, 7, 8, 4, gpus(2));
  plan.chunks = {{0, 4}, {1, 3}};
  CHECK(in_chunks(plan, limits(2)) == plan);
  plan = uniform_plan(2, 1, 7, 8, 4, gpus(2));
  plan.stages[0].layers = -5;
  CHECK(in_chunks(plan, limits(2)) == plan);
  CHECK(in_chunks(uniform_plan(2, 1, 7, 8, 4, gpus(2)), limits(1)).chunks.empty());
  CHECK(in_chunks(uniform_plan(2, 1, 7, 8, 4, gpus(2)), limits(0)).chunks.empty());
}
