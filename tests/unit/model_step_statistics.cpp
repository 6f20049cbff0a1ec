// When a few measured steps suffice.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "planner/core/model/step_statistics.hpp"

using namespace espalier;

namespace {

Profile told(int steps, std::vector<std::optional<double>> spreads) {
  Profile profile;
  profile.steps = steps;
  for (const auto& spread : spreads) {
    profile.replicas.emplace_back();
    profile.replicas.back().spread = spread;
  }
  return profile;
}

}  // namespace

TEST_CASE("the median needs no order and takes the mean of an even number's middle") {
  CHECK(median({}) == 0);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2.5);
}

TEST_CASE("four steps must all agree, of more a slow one on each side is left out") {
  CHECK(spread_of({100, 101, 99, 100}) == doctest::Approx(0.01));
  CHECK(spread_of({100, 150, 100, 100}) == doctest::Approx(0.25));
  CHECK(spread_of({100, 150, 100, 100, 100, 60, 100, 100}) == 0);
  CHECK(spread_of({100, 150, 100, 100, 150, 60, 100, 100}) > 0.2);
  std::vector<double> sixteen(16, 100);
  for (const std::size_t slow : {0u, 5u, 9u, 14u}) sixteen[slow] = 500;
  CHECK(spread_of(sixteen) == 0);
}

TEST_CASE("too few steps, or no work, are known to no share") {
  CHECK(std::isinf(spread_of({100, 100, 100})));
  CHECK(std::isinf(spread_of({0, 0, 0, 0})));
  CHECK(
      std::isinf(spread_of({1, 1, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()})));
}

TEST_CASE("a training that warms up is not calm, however small its steps' differences are") {
  std::vector<double> work;
  for (int i = 0; i < 16; ++i) work.push_back(i < 8 ? 106 : 100);
  CHECK(spread_of(work) > kCalmSpread);
  // The medians of the halves differ though the interval is narrow.
  work = {106, 106, 106, 100, 100, 100, 100, 100};
  CHECK(spread_of(work) > kCalmSpread);
  for (int i = 0; i < 8; ++i) work.erase(work.begin()), work.push_back(100);
  CHECK(spread_of(work) == 0);
}

TEST_CASE("the interval covers the true median as often as it says") {
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0, 0.2);  // its median is 1
  for (const int steps : {4, 8, 16}) {
    int covered = 0;
    constexpr int kTries = 2000;
    for (int i = 0; i < kTries; ++i) {
      std::vector<double> work;
      for (int s = 0; s < steps; ++s) work.push_back(noise(random));
      if (std::abs(median(work) - 1) <= 2 * spread_of(work) * median(work)) ++covered;
    }
    CAPTURE(steps);
    CHECK(covered >= 0.875 * kTries);
  }
}

TEST_CASE("a profile is calm when all its replicas are, and says so itself") {
  CHECK(calm(told(4, {0.01, 0.02})));
  CHECK_FALSE(calm(told(4, {0.01, 0.021})));
  CHECK_FALSE(calm(told(3, {0.01})));
  CHECK_FALSE(calm(told(16, {0.01, std::nullopt})));
  CHECK_FALSE(calm(told(16, {})));
  CHECK_FALSE(tells_statistics(told(0, {0.01})));
  CHECK(spread_of(told(4, {0.01, 0.3})) == 0.3);
}
