// What the planner is told of which GPUs reach each other.
#include "launcher/world/gpu_reach.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "planner/wire/thread_time.hpp"

using namespace espalier;
using namespace espalier::launcher;

TEST_CASE("of GPUs that are left out nothing is told, and the others keep their islands") {
  GpuReach reach;
  reach.heard({"n1", 10}, wire::Ready{{0, 0, 0, 0, 1, 1, 1, 1}});
  reach.heard({"n1", 11}, wire::Ready{{0, 1}});
  const std::vector<Holding> held{{10, "n1", {7, 6, 5, 4, 3, 2, 1, 0}}, {11, "n1", {8, 9}}, {12, "n2", {0}}};
  CHECK(reach.of_part(held, held) == reach.all());
  const auto told = reach.of_part(held, {{10, "n1", {0, 1, 2, 4, 5, 6, 7}}, {12, "n2", {0}}});
  CHECK(told == wire::GpuIslands{{"n1/10", {0, 0, 0, 1, 1, 1, 1}}});
  // A rank that saw another number of GPUs than are held has told of none of them.
  CHECK(reach.of_part({{11, "n1", {8, 9, 10}}}, {{11, "n1", {8, 9}}}).empty());
}

TEST_CASE("what is held no more is forgotten") {
  GpuReach reach;
  reach.heard({"n1", 10}, wire::Ready{{0, 1}});
  reach.heard({"n1", 11}, wire::Ready{{0, 1}});
  reach.heard({"n2", 10}, wire::Ready{{0, 1}});
  CHECK(reach.of({{10, "n1", {0, 1}}, {11, "n2", {0, 1}}}) == wire::GpuIslands{{"n1/10", {0, 1}}});
  CHECK(reach.all().size() == 1);
}

TEST_CASE("ranks that use no GPU memory reach those of other Slurm jobs") {
  GpuReach reach;
  CHECK_FALSE(reach.jobs_reach());
  reach.heard({"n1", 10}, wire::Ready{{}, true});
  CHECK(reach.jobs_reach());
  CHECK(reach.all().empty());
}

// Each node was looked for among all others, with two names made for each pair.
TEST_CASE("of 8,192 nodes it is told in less than a second which of their GPUs reach each other") {
  GpuReach reach;
  std::vector<Holding> held;
  for (int node = 0; node < 8192; ++node) {
    held.push_back({10, "node" + std::to_string(node), {0, 1}});
    reach.heard({held.back().node, 10}, wire::Ready{{0, 1}});
  }
  const double start = wire::thread_seconds();
  CHECK(reach.of(held).size() == held.size());
  CHECK(reach.of_part(held, held) == reach.all());
  const double took = wire::thread_seconds() - start;
  MESSAGE("the islands of ", held.size(), " nodes, twice: ", took, " s");
  CHECK(took < 1);
}
