#include <doctest/doctest.h>

#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/recovery/partners.hpp"

using namespace espalier;
using namespace espalier::torchrt;

TEST_CASE("copies are kept on the next node, spread over its ranks") {
  CHECK(snapshot_partners(pipeline({{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}}), {"7", "8", "9", "9"}) ==
        std::vector<int>{2, 3, 0, 1});
  CHECK(snapshot_partners(pipeline({{"a", 0}, {"b", 0}, {"a", 1}, {"c", 0}}), {"7", "8", "7", "9"}) ==
        std::vector<int>{1, 3, 1, 0});
}

TEST_CASE("on one node an extension's copies are kept beside it, since it takes its own with it") {
  CHECK(snapshot_partners(pipeline({{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}}), {"7", "7", "8", "8"}) ==
        std::vector<int>{2, 3, 0, 1});
}

TEST_CASE("one node and one vault have nobody to keep their copies") {
  CHECK(snapshot_partners(pipeline({{"a", 0}, {"a", 1}}), {"7", "7"}) == std::vector<int>{-1, -1});
}
