// Rubick's slopes against cases solved by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "planner/sim/policies/rubick_slopes.hpp"

using namespace espalier::sim;

namespace {

const std::vector<CurvePoint> kFlat{{1, 1}, {2, 1.9}, {4, 3.4}, {8, 5}};
const std::vector<CurvePoint> kSteep{{1, 1}, {2, 1.95}, {4, 3.8}, {8, 7}};

RubickJob job(const std::vector<CurvePoint>& curve, int submitted, int gpus) {
  RubickJob one;
  one.curve = curve;
  for (const CurvePoint& point : curve)
    if (point.gpus == submitted) one.initial = point.throughput;
  one.minimum = minimum_demand(curve, one.initial);
  one.gpus = gpus;
  return one;
}

}  // namespace

TEST_SUITE("rubick") {
  TEST_CASE("points that gain under 1% are dropped") {
    const auto useful = useful_points({{4, 2}, {1, 1}, {3, 1.005}, {2, 1.02}, {8, 2.01}, {8, 1.9}});
    REQUIRE(useful.size() == 3);
    CHECK(useful[0].gpus == 1);
    CHECK(useful[1].gpus == 2);
    CHECK(useful[2].gpus == 4);
  }

  TEST_CASE("the minimum is the fewest GPUs with a plan as fast as the submitted one") {
    CHECK(minimum_demand(kFlat, 1.9) == 2);
    CHECK(minimum_demand(kFlat, 1.2) == 2);
    CHECK(minimum_demand(kFlat, 6) == 0);
  }

  TEST_CASE("a reconfiguration must leave 97% of the time trained") {
    CHECK_FALSE(is_settled(1000, 1, 25, {}));  // 0.975
    CHECK(is_settled(1000, 1, 31, {}));        // 0.969
    CHECK(is_settled(1000, 2, 25, {}));        // 0.95
    CHECK_FALSE(is_settled(0, 0, 25, {}));
  }

  TEST_CASE("idle GPUs go to the highest slope first") {
    // Up from 2: flat (3.4 - 1.9) / 1.9 / 2 = 0.395, steep (3.8 - 1.95) / 1.95 / 2 = 0.474, 2 to 8
    // (7 - 1.95) / 1.95 / 6 = 0.432. With four idle GPUs, steep gets 4, then flat gets 4.
    const std::vector jobs{job(kFlat, 2, 2), job(kSteep, 2, 2)};
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{4, 4});
    // With two idle GPUs only steep grows.
    CHECK(rubick_shares(jobs, 6, {}) == std::vector{2, 4});
    CHECK(rubick_shares(jobs, 4, {}) == std::vector{2, 2});
  }

  TEST_CASE("a waiting job takes from the lowest slope while that is below its own") {
    // The new job's own: 1.9 / 1.9 / 2 = 0.5. Down from 4: flat 0.395, steep 0.474.
    const std::vector jobs{job(kFlat, 2, 4), job(kSteep, 2, 4), job(kFlat, 2, 0)};
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{2, 4, 2});
  }

  TEST_CASE("a waiting job with a lower slope waits, for 200 s") {
    // Submitted with 4 GPUs: 1 / 4 = 0.25.
    std::vector jobs{job(kFlat, 2, 4), job(kSteep, 2, 4), job(kFlat, 4, 0)};
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{4, 4, 0});
    jobs[2].waited = 200;
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{4, 4, 0});
    jobs[2].waited = 201;
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{2, 2, 4});
  }

  TEST_CASE("nobody is taken below its minimum, and who cannot get enough takes nothing") {
    std::vector jobs{job(kFlat, 4, 4), job(kSteep, 2, 4), job(kFlat, 4, 0)};
    jobs[2].waited = 1000;
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{4, 4, 0});
  }

  TEST_CASE("who does not fit lets the next one pass") {
    const std::vector jobs{job(kFlat, 4, 4), job(kFlat, 4, 0), job(kFlat, 1, 0)};
    CHECK(rubick_shares(jobs, 5, {}) == std::vector{4, 0, 1});
  }

  TEST_CASE("settled jobs neither grow nor shrink, unless someone has waited too long") {
    std::vector jobs{job(kFlat, 2, 4), job(kSteep, 2, 4), job(kFlat, 2, 0)};
    jobs[0].settled = true;
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{4, 2, 2});
    jobs[1].settled = true;
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{4, 4, 0});
    CHECK(rubick_shares(std::vector{jobs[0]}, 8, {}) == std::vector{4});
    jobs[2].waited = 300;
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{2, 4, 2});
    jobs[0].fixed = true;
    CHECK(rubick_shares(jobs, 8, {}) == std::vector{4, 2, 2});
  }

  TEST_CASE("a job that starts may start larger than its minimum") {
    CHECK(rubick_shares(std::vector{job(kSteep, 2, 0)}, 8, {}) == std::vector{8});
  }

  TEST_CASE("shares are points of the curves, never more than there is, never below what is guaranteed") {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
      std::vector<RubickJob> jobs;
      int used = 0;
      for (int j = 0; j < 6; ++j) {
        std::vector<CurvePoint> curve;
        for (int gpus = 1; gpus <= 16; ++gpus)
          if (random() % 3 > 0) curve.push_back({gpus, std::pow(gpus, 0.3 + 0.1 * (j % 7))});
        if (curve.empty()) continue;
        const auto at = random() % curve.size();
        RubickJob one = job(curve, curve[random() % (at + 1)].gpus, random() % 2 == 0 ? 0 : curve[at].gpus);
        one.settled = random() % 4 == 0;
        one.fixed = one.gpus > 0 && random() % 6 == 0;
        one.waited = static_cast<double>(random() % 400);
        used += one.gpus;
        jobs.push_back(std::move(one));
      }
      const int all = used + static_cast<int>(random() % 8);
      const auto shares = rubick_shares(jobs, all, {});
      CHECK(std::accumulate(shares.begin(), shares.end(), 0) <= all);
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        const bool point = std::any_of(jobs[j].curve.begin(), jobs[j].curve.end(),
                                       [&](const CurvePoint& p) { return p.gpus == shares[j]; });
        CHECK((point || shares[j] == 0));
        if (jobs[j].gpus > 0) CHECK(shares[j] >= std::min(jobs[j].minimum, jobs[j].gpus));
        if (jobs[j].fixed) CHECK(shares[j] == jobs[j].gpus);
      }
    }
  }
}
