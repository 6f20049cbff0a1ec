// Where counts of GPUs are placed.
#include <doctest/doctest.h>

#include <random>

#include "planner/sim/policies/packing.hpp"

using namespace espalier::sim;

namespace {
std::vector<PackedNode> nodes(int count, int gpus, int rack_nodes = 100) {
  std::vector<PackedNode> all;
  for (int n = 0; n < count; ++n) all.push_back({gpus, n / rack_nodes});
  return all;
}
}  // namespace

TEST_SUITE("packing") {
  TEST_CASE("who wants what it holds stays, and the next one fills the fullest node") {
    const std::vector<PackedJob> jobs{{2, {{1, 2}}}, {2, {}}, {8, {}}};
    const auto spreads = pack(nodes(3, 8), jobs);
    CHECK(spreads[0] == Spread{{1, 2}});
    CHECK(spreads[1] == Spread{{1, 2}});
    CHECK(spreads[2] == Spread{{0, 8}});
  }

  TEST_CASE("a job grows and shrinks where it is") {
    const std::vector<PackedJob> jobs{{4, {{1, 2}}}, {1, {{0, 4}}}, {16, {{2, 8}}}};
    const auto spreads = pack(nodes(4, 8), jobs);
    CHECK(spreads[0] == Spread{{1, 4}});
    CHECK(spreads[1] == Spread{{0, 1}});
    CHECK(spreads[2] == Spread{{2, 8}, {3, 8}});
  }

  TEST_CASE("several nodes are of one rack if possible") {
    // Rack 0 has one free node, rack 1 two.
    const std::vector<PackedJob> jobs{{1, {{0, 1}}}, {8, {}}, {4, {}}};
    const auto spreads = pack(nodes(4, 4, 2), jobs);
    CHECK(spreads[1] == Spread{{2, 4}, {3, 4}});
    CHECK(spreads[2] == Spread{{1, 4}});
  }

  TEST_CASE("a rest beyond whole nodes goes to one more") {
    const std::vector<PackedJob> jobs{{11, {}}};
    const auto spreads = pack(nodes(2, 8), jobs);
    CHECK(spreads[0] == Spread{{0, 8}, {1, 3}});
  }

  TEST_CASE("small jobs make room for larger ones") {
    // Each node has one free GPU and two are wanted, so one of the small jobs moves.
    const std::vector<PackedJob> jobs{{1, {{0, 1}}}, {2, {{0, 2}}}, {1, {{1, 1}}}, {2, {{1, 2}}}, {2, {}}};
    const auto spreads = pack(nodes(2, 4), jobs);
    CHECK(spreads[4] == Spread{{0, 2}});
    CHECK(spreads[0] == Spread{{1, 1}});
    CHECK(spreads[1] == Spread{{0, 2}});
    CHECK(spreads[3] == Spread{{1, 2}});
  }

  TEST_CASE("whole nodes are cleared for who needs them, unless someone there must stay") {
    std::vector<PackedJob> jobs{{1, {{0, 1}}}, {2, {{1, 2}}}, {4, {}}};
    CHECK(pack(nodes(2, 4), jobs)[2] == Spread{{0, 4}});
    CHECK(pack(nodes(2, 4), jobs)[0] == Spread{{1, 1}});
    jobs[0].fixed = jobs[1].fixed = true;
    CHECK(pack(nodes(2, 4), jobs)[2].empty());
    CHECK(pack(nodes(2, 4), jobs)[0] == Spread{{0, 1}});
  }

  TEST_CASE("powers of two and whole nodes all find a place when their sum fits") {
    std::mt19937 random(17);
    for (int round = 0; round < 500; ++round) {
      const auto all = nodes(1 + static_cast<int>(random() % 6), 8, 3);
      std::vector<PackedJob> jobs;
      int left = 8 * static_cast<int>(all.size());
      while (left > 0) {
        const int gpus = random() % 4 == 0 ? 8 * (1 + static_cast<int>(random() % 3)) : 1 << (random() % 4);
        if (gpus > left) {
          if (random() % 3 == 0) break;
          continue;
        }
        left -= gpus;
        jobs.push_back({gpus, {}});
      }
      auto spreads = pack(all, jobs);
      for (int again = 0; again < 2; ++again) {
        std::vector<int> used(all.size(), 0);
        for (std::size_t j = 0; j < jobs.size(); ++j) {
          CHECK(count_gpus(spreads[j]) == jobs[j].gpus);
          CHECK((spreads[j].size() <= 1 || jobs[j].gpus > 8));
          for (const NodeShare& share : spreads[j]) used[static_cast<std::size_t>(share.node)] += share.gpus;
        }
        for (const int gpus : used) CHECK(gpus <= 8);
        // Then some counts change while other jobs run.
        int sum = 0;
        for (std::size_t j = 0; j < jobs.size(); ++j) {
          jobs[j].held = spreads[j];
          if (random() % 2 == 0) jobs[j].gpus = random() % 2 == 0 ? jobs[j].gpus * 2 : std::max(1, jobs[j].gpus / 2);
          if (jobs[j].gpus > 8) jobs[j].gpus = jobs[j].gpus / 8 * 8;
          if ((sum += jobs[j].gpus) > 8 * static_cast<int>(all.size())) sum -= jobs[j].gpus, jobs[j].gpus = 0;
        }
        spreads = pack(all, jobs);
      }
    }
  }
}
