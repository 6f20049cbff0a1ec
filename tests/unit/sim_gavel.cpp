// Gavel's shares and rounds against cases solved by hand.
#include <doctest/doctest.h>

#include <random>

#include "planner/sim/policies/gavel_shares.hpp"

using namespace espalier::sim;

TEST_SUITE("gavel") {
  TEST_CASE("the sum of throughputs is largest with the jobs that need few GPUs") {
    const std::vector<GavelJob> jobs{{4, {10}}, {2, {1}}, {2, {7}}};
    const auto shares = gavel_shares(jobs, std::vector{4}, GavelObjective::throughput);
    CHECK(shares[0][0] == doctest::Approx(0));
    CHECK(shares[1][0] == doctest::Approx(1));
    CHECK(shares[2][0] == doctest::Approx(1));
  }

  TEST_CASE("who loses least goes to the slower type") {
    // Relative to their best: 1 and 0.5, 1 and 0.9. 1 + 0.9 against 0.5 + 1.
    const std::vector<GavelJob> jobs{{1, {2, 1}}, {1, {2, 1.8}}};
    for (const auto objective : {GavelObjective::throughput, GavelObjective::fairness}) {
      const auto shares = gavel_shares(jobs, std::vector{1, 1}, objective);
      if (objective == GavelObjective::throughput) {
        CHECK(shares[0][0] == doctest::Approx(1));
        CHECK(shares[1][1] == doctest::Approx(1));
      } else {
        // The first has the fast type for a share a, else the slow one: a + (1 - a) / 2; the second 0.9 a + 1 - a.
        // Equal at a = 5/6: 11/12.
        CHECK(shares[0][0] == doctest::Approx(5.0 / 6));
        CHECK(shares[1][0] == doctest::Approx(1.0 / 6));
      }
    }
  }

  TEST_CASE("a fair share is one of GPU time") {
    const std::vector<GavelJob> equal{{1, {3}}, {1, {1}}};
    const auto halves = gavel_shares(equal, std::vector{1}, GavelObjective::fairness);
    CHECK(halves[0][0] == doctest::Approx(0.5));
    CHECK(halves[1][0] == doctest::Approx(0.5));
    // One GPU all the time, two GPUs half of it.
    const std::vector<GavelJob> unlike{{1, {1}}, {2, {1}}};
    const auto shares = gavel_shares(unlike, std::vector{2}, GavelObjective::fairness);
    CHECK(shares[0][0] == doctest::Approx(1));
    CHECK(shares[1][0] == doctest::Approx(0.5));
  }

  TEST_CASE("a job that fits on no type has no share, and the others have theirs") {
    const std::vector<GavelJob> jobs{{1, {0}}, {1, {1}}};
    for (const auto objective : {GavelObjective::throughput, GavelObjective::fairness}) {
      const auto shares = gavel_shares(jobs, std::vector{1}, objective);
      CHECK(shares[0][0] == 0);
      CHECK(shares[1][0] == doctest::Approx(1));
    }
  }

  TEST_CASE("a round takes who is furthest behind its share, then whoever fits") {
    // Fractions received 0.25 and 0.75: priorities 2 and 0.67.
    std::vector<GavelRoundJob> jobs{{2, {0.5}, {30}, 0, false}, {2, {0.5}, {10}, -1, false}, {1, {0}, {10}, -1, false}};
    CHECK(gavel_round(jobs, std::vector{2}) == std::vector{-1, 0, -1});
    CHECK(gavel_round(jobs, std::vector{3}) == std::vector{-1, 0, 0});
    jobs[0].fixed = true;
    CHECK(gavel_round(jobs, std::vector{3}) == std::vector{0, -1, 0});
  }

  TEST_CASE("of equal claims the job that runs goes on") {
    const std::vector<GavelRoundJob> jobs{{1, {1}, {5}, -1, false}, {1, {1}, {5}, 0, false}};
    CHECK(gavel_round(jobs, std::vector{1}) == std::vector{-1, 0});
  }

  TEST_CASE("nobody runs where it cannot") {
    const std::vector<GavelRoundJob> jobs{{1, {-1, 0.2}, {5, 5}, -1, false}};
    CHECK(gavel_round(jobs, std::vector{4, 4}) == std::vector{1});
    CHECK(gavel_round(jobs, std::vector{4, 0}) == std::vector{-1});
  }

  TEST_CASE("shares and rounds stay within capacity") {
    std::mt19937 random(11);
    for (int round = 0; round < 100; ++round) {
      std::vector<GavelJob> jobs(1 + random() % 8);
      for (GavelJob& job : jobs)
        job = {1 << (random() % 4), {static_cast<double>(random() % 5), static_cast<double>(random() % 9)}};
      const std::vector capacity{static_cast<int>(random() % 16), static_cast<int>(random() % 16)};
      for (const auto objective : {GavelObjective::throughput, GavelObjective::fairness}) {
        const auto shares = gavel_shares(jobs, capacity, objective);
        std::vector<GavelRoundJob> claims;
        std::vector<double> used(2, 0);
        for (std::size_t j = 0; j < jobs.size(); ++j) {
          CHECK(shares[j][0] + shares[j][1] <= 1 + 1e-6);
          for (std::size_t m = 0; m < 2; ++m) used[m] += jobs[j].gpus * shares[j][m];
          claims.push_back({jobs[j].gpus, shares[j], {1, 1}, -1, false});
        }
        for (std::size_t m = 0; m < 2; ++m) CHECK(used[m] <= capacity[m] + 1e-6);
        const auto types = gavel_round(claims, capacity);
        std::vector<int> taken(2, 0);
        for (std::size_t j = 0; j < jobs.size(); ++j)
          if (types[j] >= 0) taken[static_cast<std::size_t>(types[j])] += jobs[j].gpus;
        for (std::size_t m = 0; m < 2; ++m) CHECK(taken[m] <= capacity[m]);
      }
    }
  }
}
