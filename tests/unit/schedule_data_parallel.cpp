// Programs that are data-parallel only, whose model the planner does not know: their first plan, their profile, and
// what is predicted from it.
#include <doctest/doctest.h>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/error.hpp"
#include "planner/core/flat_profile.hpp"
#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/scheduler.hpp"
#include "tests/unit/data_parallel_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

Json flat(std::vector<double> compute_ms) {
  Json json = {{"step", 25},          {"steps", 20},           {"compute_ms", compute_ms},
               {"rest_ms", 3},        {"gradient_bytes", 4e6}, {"weight_bytes", 4e6},
               {"state_bytes", 12e6}, {"peak_bytes", 0},       {"spread", 0.01},
               {"added_later", 1}};
  if (compute_ms.size() > 1) json["sync_ms"] = 0.001;
  return json;
}

}  // namespace

TEST_CASE("a program that is data-parallel only starts on any number of GPUs, in one stage") {
  for (const int gpus : {1, 2, 3, 5, 7, 8}) {
    const Plan plan = first_of(data_job(gpus, 24));
    CAPTURE(describe(plan));
    REQUIRE(plan.stages.size() == 1);
    CHECK(plan.stages[0].tp == 1);
    CHECK(static_cast<int>(plan.stages[0].replicas.size()) == gpus);
    CHECK(plan.micro_batches == 1);
    CHECK(validate(plan, 1).empty());
  }
  const Plan grouped = first_of(data_job(6, 24, {3}));
  CHECK(grouped.stages[0].tp == 3);
  CHECK(grouped.stages[0].replicas.size() == 2);
}

TEST_CASE("too few samples, or GPUs that fill no group, are refused in words") {
  CHECK_THROWS_WITH_AS(
      first_of(data_job(4, 3)),
      "no plan on 4 GPU(s): the program's global batch is 3 samples, and each replica needs one; ask Slurm for "
      "fewer GPUs or make the global batch larger",
      Error);
  CHECK_THROWS_WITH_AS(first_of(data_job(4, 24, {3})),
                       "no plan on 4 GPU(s): the program takes GPUs in groups of 3; ask Slurm for a multiple of that",
                       Error);
}

TEST_CASE("a flat profile predicts the step on more GPUs: what is divided by them, and what is not") {
  const Site site = two_nodes_of_8();
  const ElasticJob job = data_job(2, 24);
  const Plan plan = first_of(job);
  const Profile profile = profile_of(flat({120, 120}).get<FlatProfile>(), plan, job.model);
  REQUIRE(unfit(profile, plan, job.model) == "");
  const JobCoefficients measured = calibrate(site.hardware, site.topology, profile).job;
  const auto ms = [&](int gpus) {
    return evaluate_plan(site.hardware, site.topology, measured, first_of(data_job(gpus, 24))).exact_ms;
  };
  CHECK(ms(2) == doctest::Approx(123).epsilon(0.01));
  CHECK(ms(4) == doctest::Approx(63).epsilon(0.02));
  CHECK(ms(8) == doctest::Approx(33).epsilon(0.04));
  CHECK(measured.param_optim_bytes == doctest::Approx(12e6));
}

// It was predicted to take half of its time on twice the GPUs, whatever its synchronization took.
TEST_CASE("synchronization that the gradients' bytes do not explain is predicted as measured, with a ring's share") {
  const Site site = two_nodes_of_8();
  const ElasticJob job = data_job(2, 24);
  const Plan plan = first_of(job);
  Json told = flat({120, 120});
  told["sync_ms"] = 50;
  const Calibration found =
      calibrate(site.hardware, site.topology, profile_of(told.get<FlatProfile>(), plan, job.model));
  CHECK(found.job.sync_beyond == doctest::Approx(100).epsilon(0.01));
  CHECK(found.doubts.empty());
  const auto ms = [&](int gpus) {
    return evaluate_plan(site.hardware, site.topology, found.job, first_of(data_job(gpus, 24))).exact_ms;
  };
  CHECK(ms(1) == doctest::Approx(240 + 3).epsilon(0.01));
  CHECK(ms(2) == doctest::Approx(120 + 50 + 3).epsilon(0.01));
  CHECK(ms(4) == doctest::Approx(60 + 75 + 3).epsilon(0.01));
  CHECK(ms(8) == doctest::Approx(30 + 87.5 + 3).epsilon(0.01));
  CHECK(coefficients_from(coefficients_json(found.job, site.hardware), site.hardware) == found.job);
}

TEST_CASE("a job is shrunk to fewer GPUs also when nothing was measured") {
  ElasticJob job = data_job(4, 24);
  job.plan = first_of(job);
  const auto plan = plan_on_subset(job, {{"n1", 0}, {"n1", 2}, {"n1", 3}}, nullptr);
  REQUIRE(plan);
  CHECK(plan->stages.size() == 1);
  CHECK(plan->gpu_count() == 3);
}

TEST_CASE("ranks that stay are spread over more, so that they keep most of a divided state; whole replicas are not") {
  const Site site = two_nodes_of_8();
  const auto grown = [&](int gpus, int unit, int more) {
    ElasticJob job = data_job(gpus, 30, {unit});
    job.plan = first_of(job);
    const Profile profile = profile_of(
        flat(std::vector<double>(job.plan->stages[0].replicas.size(), 120)).get<FlatProfile>(), *job.plan, job.model);
    const JobCoefficients measured = calibrate(site.hardware, site.topology, profile).job;
    const PlanBounds bounds;
    const std::int16_t type = site.topology.gpu_types(0)[0];
    const auto own = static_cast<std::int16_t>(gpus), added = static_cast<std::int16_t>(more);
    const PlanSketch sketch{1, {{unit, 1, {{0, type, own}, {1, type, added}}}}};
    std::vector<NodeGpus> available{{0, {}}, {1, {}}};
    for (std::int16_t gpu = 0; gpu < own; ++gpu) available[0].gpus.push_back(gpu);
    for (std::int16_t gpu = 0; gpu < added; ++gpu) available[1].gpus.push_back(gpu);
    const auto plan = materialize({site.hardware, site.topology, measured, bounds}, sketch, job, available);
    REQUIRE(plan);
    CHECK(validate(*plan, 1).empty());
    return plan->ranks();
  };
  CHECK(grown(3, 1, 2) == std::vector<GpuId>{{"n1", 0}, {"n2", 1}, {"n1", 1}, {"n2", 0}, {"n1", 2}});
  CHECK(grown(4, 2, 2) == std::vector<GpuId>{{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}, {"n2", 0}, {"n2", 1}});
}

TEST_CASE("a flat profile of another plan, or with a field that is missing, is refused by name") {
  const ElasticJob job = data_job(2, 24);
  CHECK_THROWS_WITH_AS(profile_of(flat({120}).get<FlatProfile>(), first_of(job), job.model),
                       "profile.flat: it tells of 1 replicas, which is not what the plan has", Error);
  Json without = flat({120, 120});
  without.erase("rest_ms");
  CHECK_THROWS_WITH_AS(without.get<FlatProfile>(), "profile.flat.rest_ms: missing", Error);
}
