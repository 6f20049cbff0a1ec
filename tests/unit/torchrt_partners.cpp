#include <doctest/doctest.h>

#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/recovery/partners.hpp"

using namespace espalier;
using namespace espalier::torchrt;

TEST_CASE("copies are kept on the next node, spread over its ranks") {
  CHECK(snapshot_partners(pipeline({{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}})) == std::vector<int>{2, 3, 0, 1});
  CHECK(snapshot_partners(pipeline({{"a", 0}, {"b", 0}, {"a", 1}, {"c", 0}})) == std::vector<int>{1, 3, 1, 0});
}

TEST_CASE("one node has nobody to keep its copies") {
  CHECK(snapshot_partners(pipeline({{"a", 0}, {"a", 1}})) == std::vector<int>{-1, -1});
}
