// "Modeling PP" of Suika App. A.2, as printed and as 1F1B runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "planner/core/model/iteration_time.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;

namespace {

std::vector<StageTime> pipeline(const std::vector<double>& forward, const std::vector<double>& backward,
                                const std::vector<double>& extra = {}) {
  std::vector<StageTime> stages;
  for (std::size_t i = 0; i < forward.size(); ++i)
    stages.push_back({forward[i], backward[i], extra.empty() ? 0 : extra[i], 0});
  return stages;
}

// Runs each stage's operations in order, each as early as possible. exact_iteration() must give the
// same.
double simulated(const std::vector<StageTime>& stages, int micro_batches) {
  const int count = static_cast<int>(stages.size());
  const auto stage = [&](int i) -> const StageTime& { return stages[static_cast<std::size_t>(i)]; };
  struct Operation {
    bool forward;
    int micro_batch;
  };
  std::vector<std::vector<Operation>> orders(stages.size());
  int left = 0;
  for (int i = 0; i < count; ++i) {
    auto& order = orders[static_cast<std::size_t>(i)];
    const int warm_up = std::min(count - 1 - i, micro_batches);
    for (int m = 0; m < warm_up; ++m) order.push_back({true, m});
    for (int m = warm_up; m < micro_batches; ++m) order.push_back({true, m}), order.push_back({false, m - warm_up});
    for (int m = micro_batches - warm_up; m < micro_batches; ++m) order.push_back({false, m});
    left += static_cast<int>(order.size());
  }
  std::map<std::tuple<bool, int, int>, double> end;  // by direction, stage, micro-batch
  std::vector<double> free(stages.size(), 0.0);
  std::vector<std::size_t> next(stages.size(), 0);
  while (left > 0) {
    const int before = left;
    for (int i = 0; i < count; ++i) {
      const auto s = static_cast<std::size_t>(i);
      while (next[s] < orders[s].size()) {
        const auto [forward, m] = orders[s][next[s]];
        double ready = 0;
        const double late = forward ? 0 : stage(i).late;
        if (const int from = forward ? i - 1 : i + 1; from >= 0 && from < count) {
          const auto sent = end.find({forward, from, m});
          if (sent == end.end()) break;
          ready = sent->second + stage(std::min(i, from)).send;
        }
        free[s] = std::max(free[s], ready) + (forward ? stage(i).fwd : stage(i).bwd);
        end[{forward, i, m}] = free[s] - late;
        ++next[s], --left;
      }
    }
    REQUIRE(left < before);
  }
  double last = 0;
  for (int i = 0; i < count; ++i) last = std::max(last, free[static_cast<std::size_t>(i)] + stage(i).extra);
  return last;
}

}  // namespace

TEST_CASE("the recurrence gives what a simulated 1F1B pipeline takes, and the printed form W + S") {
  struct Case {
    std::vector<double> forward, backward;
    int micro_batches;
    double simulated, printed;
  };
  const Case cases[] = {
      {{1, 1}, {2, 2}, 1, 6, 6},         {{1, 1}, {2, 2}, 2, 9, 9},         {{2, 1}, {4, 2}, 2, 13, 15},
      {{1, 1, 1}, {2, 2, 2}, 3, 15, 15}, {{1, 2}, {2, 4}, 2, 15, 15},       {{2, 1}, {4, 2}, 4, 25, 27},
      {{2, 1, 1}, {4, 2, 2}, 3, 20, 24}, {{1, 1, 2}, {2, 2, 4}, 3, 24, 24},
  };
  for (const Case& one : cases) {
    const auto stages = pipeline(one.forward, one.backward);
    CHECK(exact_iteration(stages, one.micro_batches) == doctest::Approx(one.simulated));
    CHECK(printed_iteration(stages, one.micro_batches) == doctest::Approx(one.printed));
  }
}

TEST_CASE("what follows the last backward pass hides behind the earlier stages' backward passes") {
  // N = 1, f 1, b 2: stage 1 ends at 4, stage 0 at 6. Extra 0.5 and 3: max(6.5, 7). Printed: 6 + max(0.5, 3 - 2).
  const auto stages = pipeline({1, 1}, {2, 2}, {0.5, 3});
  CHECK(exact_iteration(stages, 1) == doctest::Approx(7));
  CHECK(printed_iteration(stages, 1) == doctest::Approx(7));
}

TEST_CASE("boundary transfers delay the recurrence only") {
  // c = 0.5, f 1, b 2. N = 1: 1 + c + 1 + 2 + c + 2 = 7.
  auto stages = pipeline({1, 1}, {2, 2});
  stages[0].send = 0.5;
  CHECK(exact_iteration(stages, 1) == doctest::Approx(7));
  // N = 2. Stage 1: F0 1.5-2.5, B0 2.5-4.5, F1 4.5-5.5, B1 5.5-7.5. Stage 0: B0 5-7, B1 8-10.
  CHECK(exact_iteration(stages, 2) == doctest::Approx(10));
  CHECK(printed_iteration(stages, 2) == doctest::Approx(9));
}

TEST_CASE("a stage waits only for the part of the next one's backward pass that makes its gradient") {
  // f 1, b 2 of which 1 late. N = 1: stage 1 ends at 4 and has sent at 3, stage 0 works from 3 to 5.
  auto stages = pipeline({1, 1}, {2, 2});
  for (StageTime& stage : stages) stage.late = 1;
  CHECK(exact_iteration(stages, 1) == doctest::Approx(5));
  // N = 2. Stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7, sent at 3 and 6. Stage 0: F0, F1 0-2, B0 3-5, B1 6-8.
  CHECK(exact_iteration(stages, 2) == doctest::Approx(8));
  CHECK(printed_iteration(stages, 2) == doctest::Approx(9));
}

TEST_CASE("what of a job's backward computation is deferred is late, its communication never") {
  JobCoefficients job;
  job.layers = 4;
  job.param_bytes = 1;
  job.deferred = 0.5;
  job.last.compute_layers = 1;
  StageRates rates;
  rates.bwd = 5;
  rates.comp_bwd = 4;
  CHECK(stage_time(job, rates, 2, false, false).late == doctest::Approx(4));
  CHECK(stage_time(job, rates, 2, false, true).late == doctest::Approx(6));
}

TEST_CASE("the recurrence is what a simulation of the schedule gives, operation by operation") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> time(0.1, 3);
  for (int round = 0; round < 500; ++round) {
    const std::size_t count = 1 + random() % 8;
    const int micro_batches = 1 + static_cast<int>(random() % 24);
    std::vector<StageTime> stages;
    for (std::size_t i = 0; i < count; ++i) {
      stages.push_back({time(random), time(random), time(random), time(random)});
      if (round % 2 == 0) stages.back().late = stages.back().bwd * time(random) / 3;
    }
    CHECK(exact_iteration(stages, micro_batches) == doctest::Approx(simulated(stages, micro_batches)).epsilon(1e-12));
  }
}

TEST_CASE("the printed form bounds the recurrence where all stages share one ratio of backward to forward") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0.1, 3);
  for (int round = 0; round < 3000; ++round) {
    const std::size_t count = 1 + random() % 8;
    const int micro_batches = 1 + static_cast<int>(random() % 24);
    const double ratio = time(random);
    std::vector<StageTime> stages;
    for (std::size_t i = 0; i < count; ++i) {
      const double forward = time(random);
      stages.push_back({forward, ratio * forward, 2 * time(random), 0});
    }
    CHECK(exact_iteration(stages, micro_batches) <= printed_iteration(stages, micro_batches) * (1 + 1e-12));
  }
}

TEST_CASE("where the ratios differ the printed form may fall short, by little") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0.1, 3);
  int below = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t count = 1 + random() % 8;
    const int micro_batches = 1 + static_cast<int>(random() % 24);
    std::vector<StageTime> stages;
    for (std::size_t i = 0; i < count; ++i) stages.push_back({time(random), time(random), 2 * time(random), 0});
    const double exact = exact_iteration(stages, micro_batches), printed = printed_iteration(stages, micro_batches);
    CHECK(exact <= 1.1 * printed);
    below += exact > printed * (1 + 1e-12);
  }
  CHECK(below > 0);
  CHECK(below < 60);
}

TEST_CASE("the printed form is exact for one micro-batch and for equal stages") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> time(0.1, 3);
  for (int round = 0; round < 1000; ++round) {
    const std::size_t count = 1 + random() % 8;
    const int micro_batches = 1 + static_cast<int>(random() % 24);
    std::vector<StageTime> stages;
    for (std::size_t i = 0; i < count; ++i) stages.push_back({time(random), time(random), 2 * time(random), 0});
    CHECK(exact_iteration(stages, 1) == doctest::Approx(printed_iteration(stages, 1)).epsilon(1e-12));
    for (std::size_t i = 1; i < count; ++i) stages[i].fwd = stages[0].fwd, stages[i].bwd = stages[0].bwd;
    CHECK(exact_iteration(stages, micro_batches) ==
          doctest::Approx(printed_iteration(stages, micro_batches)).epsilon(1e-12));
  }
}

TEST_CASE("a stage's time adds its edge: computation, gradients, optimizer") {
  JobCoefficients job = model_cases::job();
  job.first.param_bytes = 500;
  job.last.param_bytes = 2000;
  job.last.compute_layers = 0.5;
  StageRates rates;
  rates.fwd = 6, rates.bwd = 12, rates.comp_fwd = 4, rates.comp_bwd = 8, rates.optim = 3;
  rates.gradient_ms_per_byte = 0.01;
  rates.extra = 10 + 3;
  // Inner: 2 layers, gradients 20 ms, optimizer 6 ms.
  StageTime time = stage_time(job, rates, 2, false, false);
  CHECK(time.fwd == doctest::Approx(12));
  CHECK(time.bwd == doctest::Approx(24));
  CHECK(time.extra == doctest::Approx(26));
  // First: 2500 bytes, 25 ms; optimizer 3 * 2.5.
  time = stage_time(job, rates, 2, true, false);
  CHECK(time.fwd == doctest::Approx(12));
  CHECK(time.extra == doctest::Approx(25 + 7.5));
  // Last: half a layer's computation more, 4000 bytes.
  time = stage_time(job, rates, 2, false, true);
  CHECK(time.fwd == doctest::Approx(12 + 2));
  CHECK(time.bwd == doctest::Approx(24 + 4));
  CHECK(time.extra == doctest::Approx(40 + 12));
  // Both, tied: the smaller edge once.
  CHECK(stage_load(job, 2, true, true).gradient_bytes == doctest::Approx(2000 + 500 + 2000));
  job.tied_bytes = 1;
  CHECK(stage_load(job, 2, true, true).gradient_bytes == doctest::Approx(2000 + 2000));
  CHECK(stage_load(job, 2, true, true).compute_layers == doctest::Approx(2.5));
}
