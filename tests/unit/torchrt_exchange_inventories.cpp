// Ranks as threads tell each other what is left.
#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <thread>

#include "torchrt/recovery/exchange_inventories.hpp"

using namespace espalier::torchrt;

namespace {

constexpr int kRanksOfNode = 8;

struct Told {
  std::vector<std::vector<Held>> by_rank;  // what each rank knows at the end
  std::size_t bytes = 0;                   // that all ranks together have put in
};

// `here`: by rank, what it found.
Told tell(const std::vector<std::vector<Held>>& here) {
  const auto ranks = static_cast<int>(here.size());
  Told told;
  told.by_rank.resize(here.size());
  std::vector<std::vector<char>> given(here.size());
  std::barrier together(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      told.by_rank[own] = exchange_inventories(here[own], rank, [&](std::span<const char> bytes) {
        given[own].assign(bytes.begin(), bytes.end());
        together.arrive_and_wait();
        const std::vector<std::vector<char>> all = given;
        if (rank == 0)
          for (const std::vector<char>& one : all) told.bytes += one.size();
        together.arrive_and_wait();  // nobody gives anew before all have read
        return all;
      });
    });
  for (std::thread& thread : threads) thread.join();
  return told;
}

// What a node of 8 ranks keeps: of each rank the state of some units.
std::vector<Held> kept_by(int node, int units) {
  std::vector<Held> kept;
  for (int rank = node * kRanksOfNode; rank < (node + 1) * kRanksOfNode; ++rank)
    for (int unit = 0; unit < units; ++unit) kept.push_back({rank, rank, unit, 0, 30, 1000});
  return kept;
}

std::vector<std::vector<Held>> found_on(int nodes, int units) {
  std::vector<std::vector<Held>> found;
  for (int rank = 0; rank < nodes * kRanksOfNode; ++rank) found.push_back(kept_by(rank / kRanksOfNode, units));
  return found;
}

std::vector<Held> all_of(int nodes, int units) {
  std::vector<Held> all;
  for (int node = 0; node < nodes; ++node)
    for (const Held& held : kept_by(node, units)) all.push_back(held);
  return all;
}

}  // namespace

TEST_CASE("the inventory of a node of 8 ranks is sent once, and every rank knows all of it") {
  constexpr int kNodes = 4, kUnits = 10;
  const Told told = tell(found_on(kNodes, kUnits));
  for (const std::vector<Held>& known : told.by_rank) CHECK(known == all_of(kNodes, kUnits));
  const std::size_t ranks = kNodes * kRanksOfNode;
  CHECK(told.bytes == ranks * kUnits * sizeof(Held) + ranks * sizeof(std::uint64_t));
}

TEST_CASE("ranks of a node that asked its vaults in another order still send the inventory once") {
  auto found = found_on(2, 5);
  std::reverse(found[3].begin(), found[3].end());
  const Told told = tell(found);
  for (const std::vector<Held>& known : told.by_rank) CHECK(known == all_of(2, 5));
  CHECK(told.bytes == 16 * 5 * sizeof(Held) + 16 * sizeof(std::uint64_t));
}

TEST_CASE("what only one rank of a node can see is known to all") {
  auto found = found_on(2, 3);
  const Held alone{3, 3, 7, 1, 28, 500};  // in a vault that the node's other ranks do not see
  found[5].push_back(alone);
  found[9].clear();  // a rank that sees no vault
  std::vector<Held> expected = all_of(2, 3);
  expected.push_back(alone);
  std::sort(expected.begin(), expected.end());
  for (const std::vector<Held>& known : tell(found).by_rank) CHECK(known == expected);
}

TEST_CASE("memory that two ranks of a node saw at different steps is torn") {
  auto found = found_on(2, 3);
  for (std::size_t rank = 2; rank < 8; ++rank) found[rank][4].step = 31;  // an old process still trained
  std::vector<Held> expected = all_of(2, 3);
  expected[4].step = -1;
  for (const std::vector<Held>& known : tell(found).by_rank) CHECK(known == expected);
}

TEST_CASE("nothing is left where no rank finds anything") {
  const Told told = tell(std::vector<std::vector<Held>>(8));
  for (const std::vector<Held>& known : told.by_rank) CHECK(known.empty());
}
