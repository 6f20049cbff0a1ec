// Arena's grids: partitions, assignments, frontier, proxy plan and the search around it.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "planner/core/grid/pruned_search.hpp"
#include "planner/core/solver/pareto.hpp"
#include "tests/bench/planner/instances.hpp"
#include "tests/bench/planner/proxy.hpp"

using namespace espalier;

namespace {

int sum(const std::vector<int>& values) { return std::accumulate(values.begin(), values.end(), 0); }
bool power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace

TEST_SUITE("grid") {
  TEST_CASE("partitions hold all layers, in as many stages, and are not too many") {
    CHECK(layer_partitions(4, 2) == std::vector<std::vector<int>>{{1, 3}, {2, 2}, {3, 1}});
    CHECK(layer_partitions(3, 4).empty());
    for (const int layers : {5, 24, 48, 80})
      for (const int stages : {1, 2, 4, 8, 16}) {
        const auto all = layer_partitions(layers, stages);
        CHECK(all.empty() == (stages > layers));
        CHECK(all.size() <= kMostPartitions);
        for (const auto& runs : all) {
          CHECK(static_cast<int>(runs.size()) == stages);
          CHECK(sum(runs) == layers);
          CHECK(*std::min_element(runs.begin(), runs.end()) > 0);
        }
      }
  }

  TEST_CASE("the assignment is the nearest of all with powers of two") {
    const std::vector<std::vector<double>> wishes{{4, 4}, {5.5, 2.5}, {1.2, 6.8}, {3, 3, 2}, {0.5, 0.5, 7}};
    for (const auto& wanted : wishes) {
      const auto found = nearest_powers(wanted, 8);
      REQUIRE(found.size() == wanted.size());
      CHECK(sum(found) == 8);
      double least = 1e9;
      std::vector<int> counts(wanted.size(), 1);
      const auto all = [&](auto&& self, std::size_t at, int left) -> void {
        if (at == counts.size()) {
          if (left == 0) least = std::min(least, imbalance_of(wanted, counts));
          return;
        }
        for (int n = 1; n <= left; n *= 2) counts[at] = n, self(self, at + 1, left - n);
      };
      all(all, 0, 8);
      CHECK(imbalance_of(wanted, found) == doctest::Approx(least));
    }
    CHECK(nearest_powers(std::vector<double>{1, 1}, 1).empty());
    CHECK(nearest_powers(std::vector<double>{7}, 7).empty());
  }

  TEST_CASE("larger stages take whole nodes first") {
    const std::vector<Piece> nodes{{0, 0, 4}, {1, 0, 4}};
    const std::vector<int> counts{2, 4, 2};
    const auto pieces = stage_pieces(counts, nodes);
    CHECK(pieces[1] == std::vector<Piece>{{0, 0, 4}});
    CHECK(pieces[0] == std::vector<Piece>{{1, 0, 2}});
    CHECK(pieces[2] == std::vector<Piece>{{1, 0, 2}});
  }

  TEST_CASE("no plan of a frontier dominates another one; all fit, and use all GPUs") {
    int grids = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const auto instance = bench::make_grid_instance(seed);
      Evaluator evaluator(instance->problem());
      const auto gpus = instance->all();
      for (int stages = 1; stages <= 4; stages *= 2) {
        const auto frontier = grid_frontier(evaluator, gpus, stages);
        CHECK(frontier.size() <= kMostFrontierPlans);
        if (!frontier.empty()) ++grids;
        for (const GridPlan& plan : frontier) {
          int layers = 0, used = 0;
          for (const GridStage& stage : plan.stages) {
            CHECK(power_of_two(stage.gpus));
            CHECK(stage.gpus % stage.tp == 0);
            layers += stage.layers;
            used += stage.gpus;
          }
          CHECK(layers == instance->job.layers);
          CHECK(used == count_gpus(gpus));
          CHECK(plan.imbalance >= frontier.front().imbalance);
          CHECK(grid_solution(evaluator, plan, gpus));
          for (const GridPlan& other : frontier)
            CHECK_FALSE((other.imbalance < plan.imbalance && other.communication < plan.communication));
        }
      }
    }
    CHECK(grids > 20);
  }

  TEST_CASE(
      "no proxy plan and no plan found is faster than the optimum; the pruned search is never worse than the proxy") {
    double proxy = 0, own = 0;
    int count = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const auto one = bench::measure_proxy(*bench::make_grid_instance(seed));
      if (!one) continue;
      CHECK(one->proxy <= 1 + 1e-9);
      CHECK(one->own <= 1 + 1e-9);
      CHECK(one->pruned <= 1 + 1e-9);
      CHECK(one->pruned >= one->proxy - 1e-12);
      for (const double grid : one->by_grid) CHECK(grid <= 1 + 1e-9);
      CHECK(one->full_plans >= one->pruned_plans);
      proxy += one->proxy, own += one->own, ++count;
    }
    REQUIRE(count >= 6);
    CHECK(own / count > 0.97);
    CHECK(proxy / count > 0.8);
  }

  TEST_CASE("the number of plans of the full search is that of a small case by hand") {
    auto instance = bench::make_grid_instance(1);
    instance->job.layers = 3;
    instance->job.tp_degrees = {1, 2};
    Evaluator evaluator(instance->problem());
    // One stage of 2 GPUs at TP 1 or 2; two stages of one GPU each, with 1+2 or 2+1 layers.
    CHECK(full_search_plans(evaluator, 2) == 4);
  }
}
