// The summary of a run, on a case solved by hand.
#include <doctest/doctest.h>

#include "planner/sim/results.hpp"

using namespace espalier;

namespace {

sim::PolicyRun run_of(const std::string& name, const std::vector<sim::JobOutcome>& jobs) {
  sim::PolicyRun run;
  run.policy = name;
  run.jobs = jobs;
  run.gpus = 10;
  return run;
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("averages, weights, utilization and delays") {
    // id, submit, start, end, gpus, redeployments, most, GPU-seconds held, GPU-seconds lost
    const auto fifo = run_of("fifo", {{1, 0, 0, 100, 1, 0, 1, 100, 0}, {2, 50, 100, 200, 3, 0, 3, 300, 0}});
    auto other = run_of("other", {{1, 0, 0, 40, 1, 1, 4, 160, 36}, {2, 50, 60, 220, 3, 0, 3, 480, 0}});
    other.redeployments = 1;
    const sim::Summary summary = sim::summarize(other, fifo);
    CHECK(summary.avg_jct == doctest::Approx((40 + 170) / 2.0));
    CHECK(summary.weighted_jct == doctest::Approx((40 + 3 * 170) / 4.0));
    CHECK(summary.makespan == 220);
    CHECK(summary.utilization == doctest::Approx(640 / 2200.0));
    CHECK(summary.avg_queueing == doctest::Approx(5));
    CHECK(summary.lost_gpu_hours == doctest::Approx(0.01));
    CHECK(summary.avg_jct_ratio == doctest::Approx(250 / 210.0));
    CHECK(summary.worst_delay == 20);
    CHECK(summary.worst_slowdown == doctest::Approx(170 / 150.0));
    CHECK(summary.delayed_share == doctest::Approx(0.5));
    CHECK(summary.p50_jct == 40);
    CHECK(summary.p99_jct == 170);
    CHECK(summary.redeployments == 1);
    CHECK(sim::summarize(fifo, fifo).avg_jct_ratio == 1);
    CHECK(sim::summarize(fifo, fifo).worst_delay == 0);
  }

  TEST_CASE("deadlines kept, and the worst rho") {
    auto run = run_of("fifo", {{1, 0, 0, 100, 1, 0, 1, 100, 0}, {2, 50, 100, 200, 3, 0, 3, 300, 0}});
    CHECK(sim::summarize(run, run).deadlines == 0);
    CHECK(sim::summarize(run, run).deadlines_kept == 0);
    run.jobs[0].deadline = 100;
    run.jobs[0].alone = 100;
    run.jobs[1].deadline = 199;
    run.jobs[1].alone = 60;
    const sim::Summary summary = sim::summarize(run, run);
    CHECK(summary.deadlines == 2);
    CHECK(summary.deadlines_kept == 0.5);
    CHECK(summary.worst_rho == doctest::Approx(150 / 60.0));
  }

  TEST_CASE("percentiles are values that occur") {
    CHECK(sim::percentile({}, 0.5) == 0);
    CHECK(sim::percentile({3, 1, 2}, 0) == 1);
    CHECK(sim::percentile({3, 1, 2}, 0.5) == 2);
    CHECK(sim::percentile({3, 1, 2}, 0.67) == 3);
    CHECK(sim::percentile({3, 1, 2}, 1) == 3);
  }
}
