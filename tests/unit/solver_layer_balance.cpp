#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "planner/core/solver/layer_balance.hpp"

using namespace espalier;

namespace {

LayerBin bin(double cost, double fixed, int cap) { return {cost, fixed, cap, 1 / cost}; }

double slowest(const std::vector<LayerBin>& bins, const std::vector<int>& layers) {
  double most = 0;
  for (std::size_t i = 0; i < bins.size(); ++i) most = std::max(most, bins[i].fixed + layers[i] * bins[i].cost);
  return most;
}

// The least maximum over all splits. Infinity: there is no split.
double best_split(const std::vector<LayerBin>& bins, int total, std::size_t at = 0, double so_far = 0) {
  if (at == bins.size()) return total == 0 ? so_far : 1e300;
  double best = 1e300;
  for (int layers = 1; layers <= std::min(bins[at].cap, total); ++layers)
    best = std::min(
        best, best_split(bins, total - layers, at + 1, std::max(so_far, bins[at].fixed + layers * bins[at].cost)));
  return best;
}

}  // namespace

TEST_SUITE("solver") {
  TEST_CASE("layers go to the stages in proportion to their speed") {
    // One stage is twice as fast: 8 and 4 of 12 layers, both 8 ms.
    std::vector<int> layers(2);
    REQUIRE(balance_layers(std::vector{bin(1, 0, 99), bin(2, 0, 99)}, 12, layers));
    CHECK(layers == std::vector<int>{8, 4});
    // The second stage has a head of 4 ms. 9 and 3 layers: 9 against 10 ms. 10 and 2 layers: 10
    // against 8 ms.
    REQUIRE(balance_layers(std::vector{bin(1, 0, 99), bin(2, 4, 99)}, 12, layers));
    CHECK(std::max(layers[0] * 1, 4 + 2 * layers[1]) == 10);
  }

  TEST_CASE("no stage holds more layers than its cap, nor none") {
    std::vector<int> layers(3);
    REQUIRE(balance_layers(std::vector{bin(1, 0, 2), bin(1, 0, 99), bin(100, 0, 99)}, 12, layers));
    CHECK(layers == std::vector<int>{2, 9, 1});
    CHECK_FALSE(balance_layers(std::vector{bin(1, 0, 2), bin(1, 0, 2), bin(1, 0, 2)}, 7, layers));
    CHECK_FALSE(balance_layers(std::vector{bin(1, 0, 9), bin(1, 0, 0), bin(1, 0, 9)}, 7, layers));
    CHECK_FALSE(balance_layers(std::vector{bin(1, 0, 9), bin(1, 0, 9), bin(1, 0, 9)}, 2, layers));
  }

  TEST_CASE("the split is the best of all splits, and no better than the continuous bound") {
    std::mt19937 random(3);
    const auto roll = [&](int low, int high) { return low + static_cast<int>(random() % unsigned(high - low + 1)); };
    int feasible = 0;
    for (int round = 0; round < 2000; ++round) {
      std::vector<LayerBin> bins;
      for (int s = roll(1, 4); s > 0; --s)
        bins.push_back(bin(0.5 + roll(0, 40) * 0.25, roll(0, 2) * 1.5, roll(0, 9) == 0 ? 0 : roll(1, 8)));
      const int total = roll(1, 12);
      std::vector<int> layers(bins.size());
      const double best = best_split(bins, total);
      const bool fits = balance_layers(bins, total, layers);
      CHECK(fits == (best < 1e300));
      if (!fits) continue;
      ++feasible;
      CHECK(slowest(bins, layers) == doctest::Approx(best));
      CHECK(continuous_bottleneck(bins, total) <= best * (1 + 1e-12));
    }
    CHECK(feasible > 500);
  }
}
