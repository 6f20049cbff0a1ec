#include <doctest/doctest.h>

#include "planner/core/feature_expression.hpp"

using espalier::fits_one_node;
using espalier::may_be_on;

TEST_CASE("constraints of Slurm against a node's features") {
  const std::set<std::string> node{"a100", "ib", "rack1"};
  for (const char* fits : {"", "ib", "a100&ib", "a100,ib", "h100|a100", "h100|ib&a100", "(h100|a100)&ib",
                           "[rack1|rack2]", "[h100*2&a100*1]", "a100*4", "((ib))", "[(a100&ib)|h100]"}) {
    CAPTURE(fits);
    CHECK(may_be_on(fits, node));
  }
  for (const char* refuses : {"h100", "a100&h100", "h100&a100|x", "(h100|x)&ib", "[rack2|rack3]", "[h100*2&x*1]",
                              "h100*4", "[a100&h100]", "(a100|ib)&x"}) {
    CAPTURE(refuses);
    CHECK_FALSE(may_be_on(refuses, node));
  }
  CHECK_FALSE(may_be_on("ib", {}));
}

TEST_CASE("a constraint that cannot be read closes no node") {
  for (const char* text : {"&", "a100&", "(h100", "h100)", "[h100", "h100||x", "()", "*"}) {
    CAPTURE(text);
    CHECK(may_be_on(text, {}));
  }
  CHECK(may_be_on(std::string(100000, '('), {}));
}

TEST_CASE("a constraint that counts nodes is none for one node") {
  CHECK(fits_one_node("(a|b)&c"));
  CHECK_FALSE(fits_one_node("[a*2&b*1]"));
}
