// The cost of redeployments, on cases solved by hand.
#include <doctest/doctest.h>

#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// 8 layers of 100 bytes, embedding 50, head 30.
JobCoefficients tiny() {
  JobCoefficients job;
  job.layers = 8;
  job.param_optim_bytes = 100;
  job.weight_bytes = 20;
  job.first.param_optim_bytes = 50;
  job.last.param_optim_bytes = 30;
  return job;
}

Plan plan(int pp, int dp, int tp, const std::vector<GpuId>& gpus) { return uniform_plan(pp, dp, 8, 8, 1, gpus, tp); }

struct Want {
  double local, near, far;
};

void check(const std::vector<sim::MovedBytes>& moved, const std::vector<Want>& wanted) {
  REQUIRE(moved.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(moved[i].local == doctest::Approx(wanted[i].local));
    CHECK(moved[i].near == doctest::Approx(wanted[i].near));
    CHECK(moved[i].far == doctest::Approx(wanted[i].far));
  }
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("a second replica is copied whole, from its own node or from another") {
    const Plan one = plan(1, 1, 1, {{"n1", 0}});
    check(sim::moved_bytes(tiny(), one, plan(1, 2, 1, {{"n1", 0}, {"n1", 1}})), {{880, 0, 0}, {0, 880, 0}});
    check(sim::moved_bytes(tiny(), one, plan(1, 2, 1, {{"n1", 0}, {"n2", 0}})), {{880, 0, 0}, {0, 0, 880}});
  }

  TEST_CASE("of a longer pipeline only the layers that change their GPU move") {
    const Plan two = plan(2, 1, 1, {{"n1", 0}, {"n1", 1}});
    // Layers 0-3 | 4-7 become 0-1 | 2-3 | 4-5 | 6-7. n1/0 held the layers of the first two new
    // stages.
    check(sim::moved_bytes(tiny(), two, plan(4, 1, 1, {{"n1", 0}, {"n2", 0}, {"n1", 1}, {"n1", 2}})),
          {{250, 0, 0}, {0, 0, 200}, {200, 0, 0}, {0, 230, 0}});
  }

  TEST_CASE("tensor parallelism moves slices") {
    const Plan one = plan(1, 1, 1, {{"n1", 0}});
    check(sim::moved_bytes(tiny(), one, plan(1, 1, 2, {{"n1", 0}, {"n1", 1}})), {{440, 0, 0}, {0, 440, 0}});
    // From halves to quarters. n1/1 held the second half and needs the second quarter.
    const Plan halves = plan(1, 1, 2, {{"n1", 0}, {"n1", 1}});
    check(sim::moved_bytes(tiny(), halves, plan(1, 1, 4, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}})),
          {{220, 0, 0}, {0, 220, 0}, {0, 220, 0}, {0, 220, 0}});
  }

  TEST_CASE("a sharded optimizer moves by shards") {
    JobCoefficients job = tiny();
    job.zero1 = true;  // weights are a fifth: 1/5 + 4/5 / 2
    check(sim::moved_bytes(job, plan(1, 1, 1, {{"n1", 0}}), plan(1, 2, 1, {{"n1", 0}, {"n1", 1}})),
          {{528, 0, 0}, {0, 528, 0}});
  }

  TEST_CASE("each method costs what it says") {
    const ClusterView cluster = cluster_of(2, 8);
    const auto site = site_of(cluster);
    JobCoefficients job = tiny();
    job.param_optim_bytes = 1e10;
    job.first.param_optim_bytes = job.last.param_optim_bytes = 0;
    const Plan from = plan(1, 1, 1, {{"n1", 0}}), to = plan(1, 2, 1, {{"n1", 0}, {"n2", 0}});
    sim::RedeployOptions options;
    options.start_seconds = 30;
    options.storage_gb_s = 8;
    options.local_gb_s = 40;
    options.switch_seconds = 3;
    options.adopt_switch_seconds = 0.5;
    const auto cost = [&](sim::Method method) { return sim::redeploy_cost(method, options, *site, job, from, to); };
    CHECK(sim::state_bytes(job) == doctest::Approx(80e9));
    CHECK(cost(sim::Method::checkpoint).overlap_seconds == 0);
    CHECK(cost(sim::Method::checkpoint).pause_seconds == doctest::Approx(10 + 30 + 10));
    CHECK(cost(sim::Method::overlap).overlap_seconds == 30);
    CHECK(cost(sim::Method::overlap).pause_seconds == doctest::Approx(20));
    const double rail = site->hardware.kinds[0].nic_bandwidth * 1e3 * options.network_share;
    CHECK(cost(sim::Method::device).overlap_seconds == 30);
    CHECK(cost(sim::Method::device).pause_seconds == doctest::Approx(std::max(2.0, 80e9 / rail) + 3));
    CHECK(cost(sim::Method::adopt).pause_seconds == doctest::Approx(80e9 / rail + 0.5));
    CHECK(sim::resume_seconds(options, job, 4) == doctest::Approx(50));
    options.measured[sim::Method::checkpoint] = {2, 8, 0.5};
    CHECK(sim::resume_seconds(options, job, 4) == doctest::Approx(2 + 4 * 0.5 + 8));
    options.measured[sim::Method::device] = {7, 0.25};
    CHECK(cost(sim::Method::device) == sim::RedeployCost{7, 0.25});
  }

  TEST_CASE("the defaults give the paper's ratio: LLaMA2-13B from 16 to 24 GPUs, 7 times faster (Suika Fig. 14b)") {
    HardwareOverrides rails;  // the paper's: 400 Gb/s per GPU
    rails.nic_gb_s = 42.5;
    const auto site = std::make_shared<const Site>(site_from_view(cluster_of(8, 8), {}, rails).site);
    const sim::PaperJob job = sim::paper_job("llama2-13b");
    const auto coefficients = sim::paper_coefficients(job, 256, site->hardware);
    std::vector<GpuId> gpus;
    for (const char* node : {"n1", "n2", "n3"})
      for (int gpu = 0; gpu < 8; ++gpu) gpus.push_back({node, gpu});
    const Plan from = uniform_plan(1, 4, 40, 256, 4, {gpus.begin(), gpus.begin() + 16}, 4);
    const Plan to = uniform_plan(1, 6, 40, 256, 4, gpus, 4);
    const auto pause = [&](sim::Method method) {
      return sim::redeploy_cost(method, {}, *site, coefficients, from, to).pause_seconds;
    };
    const double ratio = pause(sim::Method::checkpoint) / pause(sim::Method::device);
    CHECK(ratio > 6);
    CHECK(ratio < 8);
    CHECK(pause(sim::Method::overlap) < pause(sim::Method::checkpoint));
    CHECK(pause(sim::Method::adopt) < pause(sim::Method::device));
  }
}
