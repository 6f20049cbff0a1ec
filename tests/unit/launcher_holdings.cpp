#include <doctest/doctest.h>

#include <string>

#include "launcher/job/holdings.hpp"
#include "planner/wire/thread_time.hpp"

using namespace espalier;
using namespace espalier::launcher;

TEST_CASE("GPUs that are left are joined by the job's own where none is on the node that leads") {
  const std::vector<Holding> own{{10, "n1", {0, 2}}, {10, "n3", {1}}};
  const std::vector<GpuId> far{{"n2", 0}, {"n3", 1}};
  CHECK(with_lead(far, own) == std::vector<GpuId>{{"n2", 0}, {"n3", 1}, {"n1", 0}, {"n1", 2}});
  CHECK(with_lead({}, own) == std::vector<GpuId>{{"n1", 0}, {"n1", 2}});
  // Of an extension there.
  CHECK(with_lead({{"n2", 0}, {"n1", 3}}, own) == std::vector<GpuId>{{"n2", 0}, {"n1", 3}});
  CHECK(with_lead(far, {}) == far);
}

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

TEST_CASE("what a plan of 16,384 GPUs does not use of 2,048 extensions is known in a moment") {
  constexpr int kNodes = 2048;
  std::vector<Holding> extensions;
  Stage stage{24, 1, {}};
  for (int node = 0; node < kNodes; ++node) {
    const std::string name = "node" + std::to_string(node);
    extensions.push_back({static_cast<JobId>(1000 + node), name, {0, 1, 2, 3, 4, 5, 6, 7}});
    if (node % 2 == 0)
      for (int gpu = 0; gpu < 8; ++gpu) stage.replicas.push_back({1, {{name, gpu}}});
  }
  Plan plan;
  plan.stages.push_back(stage);
  const double start = wire::thread_seconds();
  const auto left = leaving(plan, extensions, {});
  CHECK(wire::thread_seconds() - start < 0.5);
  CHECK(left.size() == kNodes / 2);
  const GpusOfPlan used(plan);
  for (int node = 0; node < kNodes; node += 100) {
    const Holding& holding = extensions[static_cast<std::size_t>(node)];
    CHECK(used.any_of(holding) == uses(plan, holding));
  }
}
