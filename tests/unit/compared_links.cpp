// A link between nodes that is far slower than its like shows in a job's looks.
#include <doctest/doctest.h>

#include "planner/core/model/compared_links.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// n1 to n4 are under leaf1, n5 and n6 under leaf2; n7 has other GPUs.
Site site() {
  ClusterView view;
  for (const int i : {1, 2, 3, 4}) view.nodes.push_back(node("n" + std::to_string(i), 4));
  for (const int i : {5, 6}) view.nodes.push_back(node("n" + std::to_string(i), 4, "leaf2"));
  view.nodes.push_back(node("n7", 4, "leaf1", "a100"));
  return site_from_view(view, {}).site;
}

std::map<std::string, double> shares(const std::vector<LinkFigure>& links) {
  std::map<std::string, double> result;
  for (const ComparedLink& one : compare_links(site(), links)) result[one.from + one.to] = one.share;
  return result;
}

}  // namespace

TEST_CASE("links are compared with the upper quartile of their like, so that a node with half of them slow shows") {
  const auto found = shares({{"n1", "n2", 10}, {"n2", "n3", 2}, {"n3", "n1", 2.5}, {"n4", "n1", 8}});
  REQUIRE(found.size() == 4);
  CHECK(found.at("n1n2") == doctest::Approx(1));
  CHECK(found.at("n2n3") == doctest::Approx(0.2));
  CHECK(found.at("n3n1") == doctest::Approx(0.25));
  CHECK(found.at("n4n1") == doctest::Approx(0.8));
}

TEST_CASE("of two links the slower one is slow, and a link alone of its kind is compared with nothing") {
  CHECK(shares({{"n1", "n2", 10}, {"n2", "n3", 5}}) == std::map<std::string, double>{{"n1n2", 1}, {"n2n3", 0.5}});
  CHECK(shares({{"n1", "n2", 10}}).empty());
  // Across the spine, and to a node of another kind.
  CHECK(shares({{"n1", "n2", 10}, {"n1", "n5", 2}, {"n1", "n7", 3}}).empty());
  const auto found = shares({{"n1", "n2", 10}, {"n1", "n5", 2}, {"n6", "n2", 5}});
  CHECK(found == std::map<std::string, double>{{"n1n5", 0.4}, {"n6n2", 1}});
}

TEST_CASE("links that cannot be placed, or were not measured, are left out") {
  CHECK(shares({{"n1", "n2", 10}, {"n2", "n9", 1}, {"n8", "n1", 1}, {"n3", "n3", 1}, {"n1", "n3", 0}}).empty());
}

TEST_CASE("a node all of whose links are slow is named, where the others' tell that it is this one") {
  const auto paths = slow_paths({{"n1", "n2", 1}, {"n3", "n2", 0.2}, {"n1", "n3", 0.3}});
  REQUIRE(paths.nodes.size() == 1);
  CHECK(paths.nodes[0].node == "n3");
  CHECK(paths.nodes[0].to == std::vector<std::string>{"n1", "n2"});
  CHECK(paths.nodes[0].share == 0.3);
  CHECK(paths.pairs.empty());
  // A chain n1 n2 n3 n4: n1 has a slow link only, but to n2, which has no other.
  const auto chain = slow_paths({{"n1", "n2", 0.1}, {"n2", "n3", 0.1}, {"n3", "n4", 1}});
  REQUIRE(chain.nodes.size() == 1);
  CHECK(chain.nodes[0].node == "n2");
}

TEST_CASE("a slow link between two nodes whose other links are fast is one of the pair") {
  const auto paths = slow_paths({{"n1", "n2", 1}, {"n3", "n1", 0.4}, {"n3", "n2", 0.9}});
  CHECK(paths.nodes.empty());
  REQUIRE(paths.pairs.size() == 1);
  CHECK(paths.pairs[0].from == "n1");
  CHECK(paths.pairs[0].to == "n3");
  CHECK(paths.pairs[0].share == 0.4);
  const auto fast = slow_paths({{"n1", "n2", 1}, {"n2", "n3", 0.5}});
  CHECK(fast.nodes.empty());
  CHECK(fast.pairs.empty());
}

TEST_CASE("slow links whose ends have no fast one are pairs: nothing tells which end it is") {
  const auto paths = slow_paths({{"n1", "n2", 0.3}, {"n3", "n4", 1}});
  CHECK(paths.nodes.empty());
  REQUIRE(paths.pairs.size() == 1);
  CHECK(paths.pairs[0].to == "n2");
}
