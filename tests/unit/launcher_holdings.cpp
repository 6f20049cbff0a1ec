#include <doctest/doctest.h>

#include "launcher/holdings.hpp"

using namespace espalier;
using namespace espalier::launcher;

TEST_CASE("what Slurm takes leaves, and with it each extension that the smaller plan has no use for") {
  const std::vector<Holding> extensions{{20, "n1", {1}}, {21, "n2", {0, 1}}, {22, "n3", {0}}, {23, "n2", {2}}};
  Plan plan;
  plan.stages.push_back({1, 1, {{1, {{"n1", 0}}}}});
  plan.stages.push_back({1, 1, {{1, {{"n2", 1}}}}});
  CHECK(uses(plan, extensions[1]));
  CHECK_FALSE(uses(plan, extensions[0]));  // another GPU of a node that it does use
  CHECK_FALSE(uses(plan, extensions[2]));
  CHECK(leaving(plan, extensions, {22}) == std::vector<JobId>{20, 22, 23});
  CHECK(leaving(plan, {}, {22}) == std::vector<JobId>{22});
}
