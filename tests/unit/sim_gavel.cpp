// Gavel's shares and rounds against cases solved by hand.
#include <doctest/doctest.h>

#include <random>

#include "planner/sim/policies/gavel_shares.hpp"

using namespace espalier::sim;

TEST_SUITE("gavel") {
  TEST_CASE("the sum of throughputs is largest with the jobs that need few GPUs") {
    const std::vector<GavelJob> jobs{{4, {10}}, {2, {1}}, {2, {7}}};
    const auto shares = gavel_shares(jobs, std::vector{4});
    CHECK(shares[0][0] == doctest::Approx(0));
    CHECK(shares[1][0] == doctest::Approx(1));
    CHECK(shares[2][0] == doctest::Approx(1));
  }

  TEST_CASE("a job that only fits in part has a part of the time") {
    // The job of two GPUs gets both: 1. The job of three gets the other two: 2/3.
    const auto shares = gavel_shares(std::vector<GavelJob>{{3, {1}}, {2, {1}}}, std::vector{4});
    CHECK(shares[0][0] == doctest::Approx(2.0 / 3));
    CHECK(shares[1][0] == doctest::Approx(1));
  }

  TEST_CASE("who loses least goes to the slower type") {
    // Relative to their best: 1 and 0.5, 1 and 0.9. 1 + 0.9 against 0.5 + 1.
    const auto shares = gavel_shares(std::vector<GavelJob>{{1, {2, 1}}, {1, {2, 1.8}}}, std::vector{1, 1});
    CHECK(shares[0][0] == doctest::Approx(1));
    CHECK(shares[1][1] == doctest::Approx(1));
  }

  TEST_CASE("a job that fits on no type has no share, and the others have theirs") {
    const auto shares = gavel_shares(std::vector<GavelJob>{{1, {0}}, {1, {1}}}, std::vector{1});
    CHECK(shares[0][0] == 0);
    CHECK(shares[1][0] == doctest::Approx(1));
    CHECK(gavel_shares({}, std::vector{1}).empty());
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
      const auto shares = gavel_shares(jobs, capacity);
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
