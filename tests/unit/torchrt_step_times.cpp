#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planner/core/profile_check.hpp"
#include "tests/unit/data_parallel_cases.hpp"
#include "torchrt/c/step_times.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// Steps of `compute`, `sync` and `rest` seconds, one after the other.
struct Process {
  StepTimes times;
  double now = 100;
  void step(double compute, double sync, double rest) {
    const double begin = now;
    times.computed(now += compute);
    if (sync >= 0) times.summed(now += sync);
    now += rest;
    times.ended(now, now - begin);
    now += 7;  // a hand-over, which is of no step
  }
};

std::vector<double> all(std::vector<Process>& processes, double peak = 0) {
  std::vector<double> told;
  for (Process& one : processes) {
    const auto mine = one.times.take(peak += 10);
    told.insert(told.end(), mine.begin(), mine.end());
  }
  return told;
}

}  // namespace

TEST_CASE("step times: medians of what lies between the marks") {
  std::vector<Process> processes(1);
  for (const double compute : {0.010, 0.012, 0.050, 0.011, 0.009}) processes[0].step(compute, 0.003, 0.002);
  const auto flat = flat_profile(all(processes), 1, 5);
  REQUIRE(flat);
  REQUIRE(flat->compute_ms.size() == 1);
  CHECK(flat->compute_ms[0] == doctest::Approx(11));
  CHECK(flat->rest_ms == doctest::Approx(2));
  CHECK(!flat->sync_ms);  // of one replica: it waits for nobody
  CHECK(flat->step == 5);
  CHECK(flat->steps == 5);
  CHECK(flat->spread > 0.1);
  CHECK(flat->peak_bytes == 10);
  CHECK(!flat_profile(all(processes), 1, 6));  // what was told is forgotten
}

TEST_CASE("step times: a replica is as slow as its slowest process and waits as long as the least") {
  std::vector<Process> processes(4);
  for (int i = 0; i < 4; ++i) {
    processes[0].step(0.010, 0.004, 0.001);
    processes[1].step(0.012, 0.002, 0.003);
    processes[2].step(0.006, 0.008, 0.001);
    processes[3].step(0.007, 0.007, 0.001);
  }
  const auto told = all(processes, 100);
  const auto pairs = flat_profile(told, 2, 4);
  REQUIRE(pairs);
  REQUIRE(pairs->compute_ms.size() == 2);
  CHECK(pairs->compute_ms[0] == doctest::Approx(12));
  CHECK(pairs->compute_ms[1] == doctest::Approx(7));
  CHECK(*pairs->sync_ms == doctest::Approx(2));
  CHECK(pairs->rest_ms == doctest::Approx(3));
  CHECK(pairs->peak_bytes == 140);
  CHECK(pairs->spread == doctest::Approx(0).epsilon(1e-6));
  CHECK(flat_profile(told, 1, 4)->compute_ms.size() == 4);
}

TEST_CASE("step times: all processes are due after the same steps, whatever they have measured") {
  Process marks, silent, nonsense;
  std::vector<int> due;
  for (int step = 1; step <= 60; ++step) {
    marks.step(0.01, 0.01, 0.01);
    silent.times.ended(step, 0.02);
    nonsense.times.computed(step);
    nonsense.times.ended(step + 1, step % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : -1);
    CHECK(silent.times.due() == marks.times.due());
    CHECK(nonsense.times.due() == marks.times.due());
    if (marks.times.due()) due.push_back(step);
  }
  CHECK(due == std::vector<int>{6, 12, 25, 50});
  CHECK(!StepTimes().due());
  // One that has measured nothing tells as many numbers, and its replica is known by the other one.
  std::vector<Process> processes{silent, marks, nonsense};
  const auto told = all(processes);
  CHECK(told.size() == 3 * StepTimes::kTold);
  CHECK(!flat_profile(told, 1, 60));
  const auto pair = flat_profile(std::span(told).first(2 * StepTimes::kTold), 2, 60);
  REQUIRE(pair);
  REQUIRE(pair->compute_ms.size() == 1);
  CHECK(pair->compute_ms[0] == doctest::Approx(10));
  CHECK(pair->steps == 60);
}

TEST_CASE("step times: a program that does not mark its sum has no sync") {
  std::vector<Process> processes(2);
  for (int i = 0; i < 4; ++i)
    for (Process& one : processes) one.step(0.010, -1, 0.002);
  const auto flat = flat_profile(all(processes), 1, 4);
  REQUIRE(flat);
  CHECK(!flat->sync_ms);
  CHECK(flat->rest_ms == doctest::Approx(2));
}

TEST_CASE("step times: what is sent is what the launcher takes") {
  std::vector<Process> processes(2);
  for (int i = 0; i < 6; ++i)
    for (Process& one : processes) one.step(0.010, 0.001, 0.002);
  auto flat = flat_profile(all(processes), 1, 6);
  REQUIRE(flat);
  flat->gradient_bytes = 512;
  const FlatProfile read = Json::parse(Json(*flat).dump()).get<FlatProfile>();
  CHECK(read.compute_ms == flat->compute_ms);
  CHECK(read.sync_ms == flat->sync_ms);
  CHECK(read.gradient_bytes == 512);
  CHECK(read.steps == 6);
  const ElasticJob job = test::data_job(2, 48);
  const Plan plan = test::first_of(job);
  CHECK(unfit(profile_of(read, plan, job.model), plan, job.model).empty());
}
