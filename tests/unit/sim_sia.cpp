// Sia's integer program against cases solved by hand and against all assignments.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "planner/sim/policies/sia_program.hpp"

using namespace espalier::sim;

namespace {

SiaJob job(std::vector<SiaConfiguration> configurations) {
  SiaJob one;
  one.configurations = std::move(configurations);
  return one;
}
// Speed is the number of GPUs: 1, 2 or 4.
SiaJob linear() { return job({{0, 1, 1}, {0, 2, 2}, {0, 4, 4}}); }

std::vector<int> gpus_of(const std::vector<SiaJob>& jobs, const std::vector<std::optional<std::size_t>>& chosen) {
  std::vector<int> gpus;
  for (std::size_t j = 0; j < jobs.size(); ++j) gpus.push_back(chosen[j] ? jobs[j].configurations[*chosen[j]].gpus : 0);
  return gpus;
}

double cost_of(const std::vector<SiaJob>& jobs, const std::vector<std::optional<std::size_t>>& chosen) {
  double sum = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) sum += chosen[j] ? sia_costs(jobs[j], {})[*chosen[j]] : 1.1;
  return sum;
}

double least_cost(const std::vector<SiaJob>& jobs, const std::vector<int>& capacity) {
  std::vector<std::optional<std::size_t>> now(jobs.size());
  double best = 1e9;
  const std::function<void(std::size_t, std::vector<int>)> next = [&](std::size_t j, std::vector<int> left) {
    if (j == jobs.size()) {
      best = std::min(best, cost_of(jobs, now));
      return;
    }
    now[j].reset();
    next(j + 1, left);
    for (std::size_t c = 0; c < jobs[j].configurations.size(); ++c) {
      const SiaConfiguration& one = jobs[j].configurations[c];
      auto rest = left;
      if ((rest[static_cast<std::size_t>(one.type)] -= one.gpus) < 0) continue;
      now[j] = c;
      next(j + 1, rest);
    }
    now[j].reset();
  };
  next(0, capacity);
  return best;
}

}  // namespace

TEST_SUITE("sia") {
  TEST_CASE("counts are powers of two inside a node, then whole nodes") {
    CHECK(sia_counts(8, 3) == std::vector{1, 2, 4, 8, 16, 24});
    CHECK(sia_counts(1, 2) == std::vector{1, 2});
    CHECK(sia_counts(6, 1) == std::vector{1, 2, 4, 6});
  }

  TEST_CASE("two equal jobs share four GPUs") {
    // A = 1, 0.707, 0.5 on 1, 2, 4 GPUs. 2 + 2: 1.414; 4 + none: 0.5 + 1.1 = 1.6; 1 + 2: 1.707.
    const std::vector jobs{linear(), linear()};
    CHECK(gpus_of(jobs, choose_configurations(jobs, std::vector{4}, {})) == std::vector{2, 2});
  }

  TEST_CASE("of three equal jobs on four GPUs one waits: throughput is worth more than a start") {
    // 2 + 2 + none: 1.414 + 1.1 = 2.514; 2 + 1 + 1: 2.707; 4 + none + none: 2.7.
    const std::vector jobs{linear(), linear(), linear()};
    const auto gpus = gpus_of(jobs, choose_configurations(jobs, std::vector{4}, {}));
    CHECK(std::count(gpus.begin(), gpus.end(), 2) == 2);
    CHECK(std::count(gpus.begin(), gpus.end(), 0) == 1);
  }

  TEST_CASE("every type goes to the job that gains most from it") {
    // First job 1 or 0.5, second 1 or 0.8165: 0.5 + 1 = 1.5 against 1 + 0.8165.
    const std::vector jobs{job({{0, 1, 1}, {1, 1, 4}}), job({{0, 1, 1}, {1, 1, 1.5}})};
    const auto chosen = choose_configurations(jobs, std::vector{1, 1}, {});
    CHECK(chosen == std::vector<std::optional<std::size_t>>{1, 0});
  }

  TEST_CASE("a job that needs several GPUs at least counts as so many") {
    // Throughputs 3 and 6 on 4 and 8 GPUs: G = 4 and 8.
    const auto costs = sia_costs(job({{0, 4, 3}, {0, 8, 6}}), {});
    CHECK(costs[0] == doctest::Approx(0.5));
    CHECK(costs[1] == doctest::Approx(1 / std::sqrt(8)));
  }

  TEST_CASE("restarts damp everything but the current configuration") {
    SiaJob one = linear();
    one.current = 0;
    one.restart_seconds = 50;
    one.restarts = 1;
    one.age = 100;  // r = (100 - 50) / (100 + 50) = 1/3: two GPUs count as 2/3 of one
    CHECK(sia_restart_factor(one) == doctest::Approx(1.0 / 3));
    CHECK(sia_costs(one, {})[0] == doctest::Approx(1));
    CHECK(sia_costs(one, {})[1] == doctest::Approx(std::sqrt(1.5)));
    const std::vector young{one};
    // Four GPUs count as 4/3: 0.866.
    CHECK(gpus_of(young, choose_configurations(young, std::vector{4}, {})) == std::vector{4});
    CHECK(gpus_of(young, choose_configurations(young, std::vector{2}, {})) == std::vector{1});
    one.age = 1000;  // r = 950 / 1050: two GPUs count as 1.81
    const std::vector old{one};
    CHECK(gpus_of(old, choose_configurations(old, std::vector{2}, {})) == std::vector{2});
    one.age = 40;  // younger than the length of a restart
    CHECK(sia_restart_factor(one) == 1);
  }

  TEST_CASE("more restarts than the job's age can bear are worth nothing, and cost the most") {
    SiaJob one = linear();
    one.current = 0;
    one.restart_seconds = 50;
    one.restarts = 3;
    one.age = 100;
    CHECK(sia_restart_factor(one) == 0);
    CHECK(sia_costs(one, {})[2] == 3000);
  }

  TEST_CASE("a job that is being restarted keeps its configuration") {
    SiaJob busy = linear();
    busy.current = 2;
    busy.fixed = true;
    const std::vector jobs{linear(), busy};
    // Two of six GPUs are left.
    CHECK(gpus_of(jobs, choose_configurations(jobs, std::vector{6}, {})) == std::vector{2, 4});
  }

  TEST_CASE("a job without configurations waits, and so do all where there are no GPUs") {
    const std::vector jobs{job({}), linear()};
    CHECK(gpus_of(jobs, choose_configurations(jobs, std::vector{2}, {})) == std::vector{0, 2});
    CHECK(gpus_of(jobs, choose_configurations(jobs, std::vector{0}, {})) == std::vector{0, 0});
    CHECK(choose_configurations({}, std::vector{4}, {}).empty());
  }

  TEST_CASE("small problems are solved as all assignments say, within capacity") {
    std::mt19937 random(7);
    const auto pick = [&](int least, int most) { return least + static_cast<int>(random() % (most - least + 1u)); };
    for (int round = 0; round < 200; ++round) {
      std::vector<SiaJob> jobs(static_cast<std::size_t>(pick(1, 5)));
      for (SiaJob& one : jobs) {
        for (int type = 0; type < 2; ++type)
          for (int gpus = 1; gpus <= 8; gpus *= 2)
            if (pick(0, 3) > 0) one.configurations.push_back({type, gpus, pick(1, 8) * std::pow(gpus, 0.7)});
        if (!one.configurations.empty() && pick(0, 1) == 1)
          one.current = static_cast<std::size_t>(pick(0, static_cast<int>(one.configurations.size()) - 1));
        one.age = pick(0, 500);
        one.restarts = pick(0, 3);
        one.restart_seconds = 40;
      }
      const std::vector capacity{pick(0, 12), pick(0, 12)};
      const auto chosen = choose_configurations(jobs, capacity, {});
      std::vector<int> used(2, 0);
      for (std::size_t j = 0; j < jobs.size(); ++j)
        if (chosen[j]) {
          REQUIRE(*chosen[j] < jobs[j].configurations.size());
          const SiaConfiguration& one = jobs[j].configurations[*chosen[j]];
          used[static_cast<std::size_t>(one.type)] += one.gpus;
        }
      CHECK(used[0] <= capacity[0]);
      CHECK(used[1] <= capacity[1]);
      CHECK(cost_of(jobs, chosen) <= least_cost(jobs, capacity) * (1 + 1e-3) + 1e-6);
    }
  }
}
