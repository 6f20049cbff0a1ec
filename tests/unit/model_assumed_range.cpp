// What is measured, what is assumed, and the worst of it.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/model/assumed_range.hpp"
#include "planner/core/model/least_time.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;

namespace {

JobCoefficients measured() {
  JobCoefficients job = model_cases::job();
  job.gpu[0] = {3, 2, 6, 2, false, false, false, false};
  job.gpu[1] = {9, 2, 18, 2, false, false, false, false};
  job.boundary_assumed = job.memory_assumed = job.first.assumed_compute = job.last.assumed_compute = false;
  job.assumed_rail = false;
  return job;
}

bool state(const JobCoefficients& job, const std::string& name) {
  Hardware hardware;
  hardware.types.resize(2);
  hardware.types[0].name = "h100";
  hardware.types[1].name = "a100";
  const auto states = coefficient_states(job, hardware);
  const auto at = std::find_if(states.begin(), states.end(), [&](const auto& one) { return one.name == name; });
  REQUIRE(at != states.end());
  return at->measured;
}

}  // namespace

TEST_CASE("every coefficient says of itself whether it was measured") {
  JobCoefficients job = measured();
  for (const char* name : {"computation.h100", "backward.a100", "optimizer.h100", "overlap.a100", "boundary", "network",
                           "first_edge", "last_edge", "memory"})
    CHECK(state(job, name));
  job.gpu[0].assumed_overlap = job.boundary_assumed = true;
  CHECK_FALSE(state(job, "overlap.h100"));
  CHECK(state(job, "overlap.a100"));
  CHECK_FALSE(state(job, "boundary"));
  CHECK(state(job, "memory"));
}

TEST_CASE("what was measured is as bad as it is") {
  const JobCoefficients job = measured();
  CHECK(worst_of_assumed(job) == job);
  CHECK_FALSE(gain_is_assumed(job, {true, true}));
}

TEST_CASE("each assumption alone is taken at its worse end") {
  JobCoefficients job = measured();
  job.gpu[0].assumed_overlap = true;
  CHECK(worst_of_assumed(job).gpu[0].overlap == 1);
  CHECK(worst_of_assumed(job).gpu[1].overlap == 2);
  CHECK(gain_is_assumed(job, {true, false}));
  CHECK_FALSE(gain_is_assumed(job, {false, true}));  // that type is not part of the plan

  job = measured();
  job.boundary_assumed = true;
  CHECK(worst_of_assumed(job).activ_bytes == 2 * job.activ_bytes);
  CHECK(gain_is_assumed(job, {false, false}));

  job = measured();
  job.gpu[1].assumed_comp = true;
  CHECK(worst_of_assumed(job).gpu[1].comp == doctest::Approx(1.5 * 9));
  CHECK(worst_of_assumed(job).gpu[0].comp == 3);

  job = measured();
  job.gpu[0].assumed_optim = true;
  job.gpu[0].optim = 0;
  CHECK(worst_of_assumed(job).gpu[0].optim == doctest::Approx(0.05 * 3 * 3 * job.global_batch));

  job = measured();
  job.memory_assumed = true;  // decides what fits, not what is gained
  CHECK_FALSE(gain_is_assumed(job, {true, true}));
  CHECK(worst_of_assumed(job) == job);
}

TEST_CASE("heavier edges leave an iteration on one GPU as long as it was") {
  JobCoefficients job = measured();
  job.last.assumed_compute = true;
  job.last.compute_layers = 4;
  const JobCoefficients worst = worst_of_assumed(job);
  CHECK(worst.last.compute_layers == 6);
  CHECK(worst.gpu[0].comp * (worst.layers + worst.first.compute_layers + 6) ==
        doctest::Approx(3 * (job.layers + job.first.compute_layers + 4)));
}

TEST_CASE("where nothing was measured the gradients may be larger, and the speed is what the step takes") {
  JobCoefficients job = measured();
  for (GpuCoefficients& gpu : job.gpu) gpu.assumed_comp = true;
  const JobCoefficients worst = worst_of_assumed(job);
  CHECK(worst.param_bytes == 2 * job.param_bytes);
  CHECK(worst.gpu[1].comp == doctest::Approx(9));
}

TEST_CASE("true coefficients of a simulation assume nothing") {
  JobCoefficients job = model_cases::job();
  for (GpuCoefficients& gpu : job.gpu) gpu.assumed_comp = gpu.assumed_overlap = true;
  job.boundary_assumed = job.last.assumed_compute = true;
  count_as_measured(job);
  CHECK_FALSE(gain_is_assumed(job, {true, true}));
  CHECK(worst_of_assumed(job) == job);
}

// A job was refused for its deadline by what was only assumed: the bound lowered the computation alone.
TEST_CASE("the bound of a step holds whatever an assumed coefficient turns out to be") {
  Hardware hardware;
  hardware.types.resize(2);
  hardware.kinds.resize(1);
  for (const std::vector<int>& gpus : {std::vector<int>{1, 0}, {4, 0}, {0, 2}, {512, 512}}) {
    JobCoefficients known = measured();
    known.tp_degrees = {1, 2, 4};
    known.first.compute_layers = 0.5;
    known.last.compute_layers = 4;
    known.deferred = 0.3;
    CHECK(fastest_of_assumed(known) == known);
    const auto holds = [&](auto assume, auto turns_out) {
      JobCoefficients guessed = known, real = known;
      assume(guessed);
      turns_out(real);
      CAPTURE(gpus.front());
      CHECK(least_step_ms(fastest_of_assumed(guessed), hardware, gpus) <= least_step_ms(real, hardware, gpus));
    };
    holds([](auto& job) { job.gpu[0].assumed_comp = job.gpu[1].assumed_comp = true; },
          [](auto& job) { job.gpu[0].comp /= 1.4, job.gpu[1].comp /= 1.4; });
    holds([](auto& job) { job.gpu[0].assumed_backward = job.gpu[1].assumed_backward = true; },
          [](auto& job) { job.gpu[0].backward = job.gpu[1].backward = 1.1, job.deferred = 0.8; });
    holds([](auto& job) { job.gpu[0].assumed_optim = job.gpu[1].assumed_optim = true; },
          [](auto& job) { job.gpu[0].optim /= 10, job.gpu[1].optim /= 10; });
    holds([](auto& job) { job.first.assumed_compute = true; }, [](auto& job) { job.first.compute_layers = 0.01; });
    holds([](auto& job) { job.last.assumed_compute = true; }, [](auto& job) { job.last.compute_layers = 1; });
    holds([](auto& job) { job.boundary_assumed = true; }, [](auto& job) { job.activ_bytes /= 3; });
  }
}
