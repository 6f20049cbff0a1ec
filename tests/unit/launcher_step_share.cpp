#include "launcher/slurm/step_share.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {
// Two GPUs on n1, four on n2, and n3 for its processors.
const std::vector<Holding> kHeld{{7, "n1", {0, 3}}, {7, "n2", {0, 1, 2, 3}}, {7, "n3", {}}};
}  // namespace

TEST_CASE("a step with all GPUs of its job lacks nothing, also without nodes that have none") {
  CHECK(lack_of({{"n1", "n2", "n3"}, "0,3"}, kHeld, "n1").empty());
  CHECK(lack_of({{"n1", "n2"}, "0-3"}, kHeld, "n2").empty());
  CHECK(lack_of({{"n3"}, ""}, {{7, "n3", {}}}, "n3").empty());
}

TEST_CASE("a step that does not have the job's GPUs is told what it lacks") {
  CHECK(lack_of({{"n1", "n3"}, "0,3"}, kHeld, "n1") == "node n2");
  CHECK(lack_of({{"n1", "n2"}, "3"}, kHeld, "n1") == "1 of the 2 GPUs on n1");
  CHECK(lack_of({{"n1", "n2"}, "0-1"}, kHeld, "n2") == "2 of the 4 GPUs on n2");
}

TEST_CASE("what Slurm does not tell of a step counts as there") {
  CHECK(lack_of({}, kHeld, "n1").empty());
  CHECK(lack_of({{"n1", "n2"}, ""}, kHeld, "n1").empty());
  CHECK(lack_of({{"n1", "n2"}, "what?"}, kHeld, "n1").empty());
}
