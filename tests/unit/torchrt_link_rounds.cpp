// Which links a plan's ranks look at, and in what order.
#include <doctest/doctest.h>

#include <set>

#include "planner/core/link_look.hpp"
#include "torchrt/profiler/link_rounds.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

std::vector<GpuId> gpus(int nodes, int each) {
  std::vector<GpuId> result;
  for (int n = 1; n <= nodes; ++n)
    for (int i = 0; i < each; ++i) result.push_back({"n" + std::to_string(n), i});
  return result;
}

// "n1-n2" of all rounds, in order. Checks what holds of every plan.
std::vector<std::string> links(const Plan& plan) {
  const auto ranks = plan.ranks();
  std::vector<std::string> result;
  std::set<std::set<std::string>> seen;
  for (const Round& round : link_rounds(plan)) {
    CHECK_FALSE(round.empty());
    std::set<std::string> busy;
    for (const RankPair& pair : round) {
      const auto node = [&](int rank) { return ranks.at(static_cast<std::size_t>(rank)).node; };
      CHECK(busy.insert(node(pair.from)).second);
      CHECK(busy.insert(node(pair.to)).second);
      CHECK(seen.insert({node(pair.from), node(pair.to)}).second);
      result.push_back(node(pair.from) + "-" + node(pair.to));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("on one node there is nothing to look at") {
  CHECK(link_rounds(uniform_plan(2, 2, 4, 8, 2, gpus(1, 4))).empty());
  CHECK(link_rounds(uniform_plan(1, 1, 4, 8, 2, gpus(1, 1))).empty());
}

TEST_CASE("stages that follow one another are looked at, and no node twice in a round") {
  const Plan plan = uniform_plan(4, 1, 4, 8, 2, gpus(4, 1));
  CHECK(links(plan) == std::vector<std::string>{"n1-n2", "n3-n4", "n2-n3"});
  CHECK(link_rounds(plan).size() == 2);
}

TEST_CASE("replicas of a stage are looked at in a ring, once for each pair of nodes") {
  CHECK(links(uniform_plan(1, 4, 4, 8, 1, gpus(2, 2))) == std::vector<std::string>{"n1-n2"});
  const auto ring = links(uniform_plan(1, 3, 4, 6, 1, gpus(3, 1)));
  CHECK(std::set<std::string>(ring.begin(), ring.end()) == std::set<std::string>{"n1-n2", "n2-n3", "n3-n1"});
}

TEST_CASE("of a tensor-parallel replica the first rank looks, also where stages have different numbers of replicas") {
  Plan plan{6, 1, {{2, 2, {{6, {{"n1", 0}, {"n1", 1}}}}}, {2, 1, {{3, {{"n2", 0}}}, {3, {{"n3", 0}}}}}}};
  const auto rounds = link_rounds(plan);
  REQUIRE(rounds.size() == 3);
  CHECK(rounds[0] == Round{{0, 2}});  // n1 to n2
  CHECK(rounds[1] == Round{{0, 3}});
  CHECK(rounds[2] == Round{{2, 3}});
}

TEST_CASE("rounds and links are bounded") {
  // One replica whose next stage is on 40 nodes.
  Plan star{40, 1, {{1, 1, {{40, {{"n0", 0}}}}}, {1, 1, {}}}};
  for (int i = 1; i <= 40; ++i) star.stages[1].replicas.push_back({1, {{"n" + std::to_string(i), 0}}});
  CHECK(link_rounds(star).size() <= kMostRounds);
  CHECK(links(star).size() > 2 * kMostRounds);
  CHECK(links(uniform_plan(1, 600, 1, 600, 1, gpus(600, 1))).size() == kMostLinkFigures);
}
