// Policy arena: the step that gains most, the counts of the buddy rule, and the GPUs that a job takes.
#include <doctest/doctest.h>

#include <bit>

#include "planner/core/schedule/arena/buddies.hpp"
#include "planner/core/schedule/arena/scaling_step.hpp"

using namespace espalier;

namespace {

ScalingJob scaling_job(int pool, int gpus, std::vector<std::vector<double>> speeds, int most = 8) {
  return {[speeds = std::move(speeds)](int at, int count) {
            const auto level = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(count)) - 1);
            return level < speeds[static_cast<std::size_t>(at)].size() ? speeds[static_cast<std::size_t>(at)][level]
                                                                       : 0;
          },
          pool, gpus, most};
}

}  // namespace

TEST_SUITE("arena policy") {
  TEST_CASE("a step doubles the job that gains most, or moves it to another type") {
    const std::vector<ScalingJob> jobs{scaling_job(0, 2, {{10, 18, 30, 40}, {5, 9, 15, 20}}),
                                       scaling_job(0, 2, {{10, 18, 20, 21}, {20, 36, 60, 80}})};
    const auto step = [&](std::vector<int> free) { return best_step(jobs, free); };
    REQUIRE(step({2, 0}));
    CHECK(step({2, 0})->job == 0);
    CHECK(step({2, 0})->gpus == 4);
    CHECK(step({2, 0})->gain == 12);
    REQUIRE(step({2, 2}));
    CHECK(step({2, 2})->job == 1);
    CHECK(step({2, 2})->pool == 1);
    CHECK(step({2, 2})->gpus == 2);
    CHECK_FALSE(step({1, 1}));
    auto weighted = jobs;
    weighted[0].weight = 2;
    CHECK(best_step(weighted, std::vector{2, 2})->job == 0);
    weighted[0].pool = -1;  // left alone
    weighted[1].switches = false;
    CHECK(best_step(weighted, std::vector{2, 2})->gpus == 4);
    weighted[1].most_gpus = 3;
    CHECK_FALSE(best_step(weighted, std::vector{2, 2}));
  }

  TEST_CASE("where a doubling is refused, the next power of two is looked at") {
    const std::vector<ScalingJob> jobs{scaling_job(0, 1, {{10, 11, 30, 40}})};
    const auto step =
        best_step(jobs, std::vector{7}, [](const ScalingStep& one) { return one.gpus == 2 || one.gpus == 8; });
    REQUIRE(step);
    CHECK(step->gpus == 4);
  }

  TEST_CASE("counts of the buddy rule are powers of two, or the basic demand") {
    CHECK(doubled(1) == 2);
    CHECK(doubled(3) == 4);
    CHECK(doubled(5) == 8);
    CHECK(doubled(8) == 16);
    CHECK(buddy_count(7, 3) == 4);
    CHECK(buddy_count(3, 3) == 3);
    CHECK(buddy_count(5, 5) == 5);
    CHECK(buddy_count(7, 6) == 6);
    CHECK(buddy_count(8, 3) == 8);
  }

  TEST_CASE("GPUs are taken on one node that has so many, else on as few nodes as can be") {
    const std::vector<NodeGpus> idle{{0, {4, 5, 6, 7}}, {1, {0, 1}}, {2, {0, 1, 2}}}, held{{1, {2, 3}}};
    std::vector<GpuAt> nearest;
    for (const NodeGpus& one : idle)
      for (const std::int16_t gpu : one.gpus) nearest.push_back({one.node, gpu, 0});
    CHECK(pick_buddies(idle, nearest, held, 2) == std::vector<NodeGpus>{{1, {0, 1}}});  // where the job is
    CHECK(pick_buddies(idle, nearest, {}, 2) == std::vector<NodeGpus>{{1, {0, 1}}});    // the smallest hole
    CHECK(pick_buddies(idle, nearest, held, 3) == std::vector<NodeGpus>{{2, {0, 1, 2}}});
    CHECK(pick_buddies(idle, nearest, held, 6) == std::vector<NodeGpus>{{0, {4, 5, 6, 7}}, {2, {0, 1}}});
    CHECK(pick_buddies(idle, nearest, held, 10).empty());
  }
}
