#include "launcher/recovery/recovery_plan.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {

const GpuId a{"n1", 0}, b{"n1", 1}, c{"n2", 0}, d{"n2", 1};

struct Loss {
  Faults faults;
  Plan lost = uniform_plan(2, 2, 8, 16, 4, {a, b, c, d});
  GpusForRecovery gpus{{a, b, c, d}, {{7, "n1", {0, 1}}}, {a, b}, 0};
  ElasticJob job;
  PlanningBasis known;

  Loss() {
    job.id = 7;
    job.max_gpus = 4;
    job.anchor = {{7, "n1", {0, 1}}};
    job.extensions = {{20, "n2", {0, 1}}};
    job.model = {"gpt2", 8, 256, 8, 128, 1000, 16, 4};
    job.plan = lost;
    faults.lost({}, 10, {}, true);
  }
  std::optional<RecoveryPlan> choose() { return choose_recovery_plan(faults, {}, lost, gpus, job, known); }
};

}  // namespace

TEST_CASE("a loss that takes no GPU goes on with the lost plan itself") {
  Loss one;
  const auto choice = one.choose();
  REQUIRE(choice);
  CHECK(choice->plan == one.lost);
  CHECK(choice->chosen.size() == 4);
}

TEST_CASE("on fewer GPUs another plan is made for those") {
  Loss one;
  one.gpus.left = {a, b};
  const auto choice = one.choose();
  REQUIRE(choice);
  const auto ranks = choice->plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{a, b});
  CHECK(choice->plan.global_batch == 16);
}

// A job of its own two GPUs trained on one of them and on an extension, and went on with one GPU when that was lost.
TEST_CASE("GPUs that the lost plan left idle take the place of those that are lost") {
  Loss one;
  one.lost = uniform_plan(1, 2, 8, 16, 4, {a, c});
  one.job.plan = one.lost;
  one.gpus.left = {a, b};  // b stood idle
  const auto choice = one.choose();
  REQUIRE(choice);
  const auto ranks = choice->plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{a, b});
}

TEST_CASE("idle GPUs change nothing while the lost plan's own are left, and replace one where ranks die") {
  Loss one;
  one.lost = uniform_plan(1, 2, 8, 16, 4, {a, c});
  one.job.plan = one.lost;
  one.gpus.left = {a, c, b};
  one.faults.lost({}, 20, {c}, true);
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto choice = one.choose();
    REQUIRE(choice);
    CHECK(choice->plan == one.lost);
    one.faults.tried(choice->chosen);
  }
  const auto without = one.choose();
  REQUIRE(without);
  const auto ranks = without->plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{a, b});
}

TEST_CASE("MIN is a floor") {
  Loss one;
  one.gpus.left = {a, b};
  one.gpus.least = 3;
  CHECK_FALSE(one.choose());
  one.gpus.left = {a, b, c, d};
  CHECK(one.choose());
}

// A job of 2:4 ended when two processes had died on one of its last two GPUs within an hour.
TEST_CASE("a GPU where two ranks died is used where the job would end without it") {
  Loss one;
  one.gpus.left = {a, b};
  one.gpus.least = 2;
  one.lost = uniform_plan(1, 2, 8, 16, 4, {a, b});
  one.faults.lost({}, 20, {b}, false);
  one.faults.lost({}, 30, {b}, false);
  REQUIRE(one.faults.unfit({}) == std::set<GpuId>{b});
  int attempts = 0;
  for (; attempts < 100; ++attempts) {
    const auto choice = one.choose();
    if (!choice) break;
    CHECK(choice->plan == one.lost);
    one.faults.tried(choice->chosen);
  }
  CHECK(attempts == 4);
  one.gpus.least = 1;
  one.faults.lost({}, 40, {}, false);
  const auto fewer = one.choose();
  REQUIRE(fewer);
  CHECK(fewer->chosen == std::vector<GpuId>{a});
}

TEST_CASE("without a GPU there is no plan, and attempts are used up") {
  Loss none;
  none.gpus.left.clear();
  none.gpus.own.clear();
  CHECK_FALSE(none.choose());
  Loss often;
  int attempts = 0;
  for (; attempts < 100; ++attempts) {
    const auto choice = often.choose();
    if (!choice) break;
    often.faults.tried(choice->chosen);
  }
  CHECK(attempts > 1);
  CHECK(attempts < 100);
}
