// The order of ranks that divide a state evenly: against all orders, one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

#include "planner/core/schedule/shard_order.hpp"

using namespace espalier;

namespace {

struct Moved {
  double to_nodes = 0, to_gpus = 0;  // shares of the state that change their node, and their GPU
};

// By intervals of a state of length 1, not by pieces as the code under test.
Moved moved(const std::vector<GpuId>& before, const std::vector<GpuId>& after) {
  Moved found{1, 1};
  const auto old_ranks = static_cast<double>(before.size()), ranks = static_cast<double>(after.size());
  for (std::size_t r = 0; r < after.size(); ++r)
    for (std::size_t o = 0; o < before.size(); ++o) {
      const double low = std::max(static_cast<double>(r) / ranks, static_cast<double>(o) / old_ranks);
      const double high = std::min(static_cast<double>(r + 1) / ranks, static_cast<double>(o + 1) / old_ranks);
      if (high <= low) continue;
      if (before[o].node == after[r].node) found.to_nodes -= high - low;
      if (before[o] == after[r]) found.to_gpus -= high - low;
    }
  return found;
}

std::vector<GpuId> ordered(const std::vector<GpuId>& before, const std::vector<GpuId>& after) {
  std::vector<GpuId> made;
  for (const std::size_t place : shard_order(before, after)) made.push_back(after[place]);
  return made;
}

// The least that any order moves with after[0] at rank 0: to other nodes, and, among those orders, to other GPUs.
Moved least(const std::vector<GpuId>& before, std::vector<GpuId> after) {
  Moved best{2, 2};
  std::sort(after.begin() + 1, after.end());
  do {
    const Moved one = moved(before, after);
    if (one.to_nodes < best.to_nodes - 1e-9 ||
        (one.to_nodes < best.to_nodes + 1e-9 && one.to_gpus < best.to_gpus - 1e-9))
      best = one;
  } while (std::next_permutation(after.begin() + 1, after.end()));
  return best;
}

}  // namespace

TEST_CASE("order of shards: from 3 to 5 ranks, those that stay are spread over the new ones") {
  const std::vector<GpuId> three{{"n1", 0}, {"n1", 1}, {"n1", 2}};
  const auto five = ordered(three, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}, {"n2", 0}});
  CHECK(five == std::vector<GpuId>{{"n1", 0}, {"n2", 0}, {"n1", 1}, {"n1", 3}, {"n1", 2}});
  CHECK(moved(three, five).to_gpus == doctest::Approx(0.4));
  CHECK(moved(five, ordered(five, three)).to_gpus == doctest::Approx(0.4));  // and back
}

TEST_CASE("order of shards: no order moves less, of all that there are") {
  std::mt19937 random(5);
  int better_than_given = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<GpuId> all;
    for (const char* node : {"n1", "n2", "n3"})
      for (int index = 0; index < 4; ++index) all.push_back({node, index});
    const auto some = [&] {
      std::shuffle(all.begin(), all.end(), random);
      return std::vector<GpuId>(all.begin(), all.begin() + 1 + static_cast<int>(random() % 7));
    };
    const auto before = some(), after = some();
    const auto made = ordered(before, after);
    REQUIRE(made.front() == after.front());
    REQUIRE(std::is_permutation(made.begin(), made.end(), after.begin(), after.end()));
    const Moved ours = moved(before, made), bound = least(before, after);
    CHECK(ours.to_nodes == doctest::Approx(bound.to_nodes));
    CHECK(ours.to_gpus == doctest::Approx(bound.to_gpus));
    better_than_given += ours.to_gpus < moved(before, after).to_gpus - 1e-9;
  }
  CHECK(better_than_given > 30);  // of 300: else the order would matter little here
}

TEST_CASE("order of shards: on one node the first GPU at rank 0 costs nothing") {
  std::vector<GpuId> gpus;
  for (int index = 0; index < 7; ++index) gpus.push_back({"n1", index});
  for (std::size_t old_ranks = 1; old_ranks <= gpus.size(); ++old_ranks)
    for (std::size_t ranks = 1; ranks <= gpus.size(); ++ranks) {
      const std::vector<GpuId> before(gpus.begin(), gpus.begin() + static_cast<int>(old_ranks));
      std::vector<GpuId> after(gpus.begin(), gpus.begin() + static_cast<int>(ranks));
      const double ours = moved(before, ordered(before, after)).to_gpus;
      double bound = 1;
      do bound = std::min(bound, moved(before, after).to_gpus);
      while (std::next_permutation(after.begin(), after.end()));
      CHECK(ours == doctest::Approx(bound));
    }
}

TEST_CASE("order of shards: the same GPUs keep their order, and so do too many") {
  const std::vector<GpuId> present{{"n2", 1}, {"n1", 0}, {"n2", 0}, {"n1", 1}};
  CHECK(ordered(present, present) == present);
  CHECK(ordered(present, {{"n2", 1}, {"n2", 0}, {"n1", 1}, {"n1", 0}}) == present);
  std::vector<GpuId> many;
  for (int index = 0; index <= static_cast<int>(kMostOrdered); ++index) many.push_back({"n1", index});
  std::vector<GpuId> others = many;
  std::reverse(others.begin(), others.end());
  CHECK(ordered(many, others) == others);
  CHECK(ordered({}, present) == present);
  CHECK(ordered(present, {}).empty());
}
