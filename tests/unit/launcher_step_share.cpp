#include "launcher/slurm/step_share.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

using namespace espalier;
using namespace espalier::launcher;

namespace {
// Two GPUs on n1, four on n2, and n3 for its processors.
const std::vector<Holding> kHeld{{7, "n1", {0, 3}}, {7, "n2", {0, 1, 2, 3}}, {7, "n3", {}}};

// The share of a step with these variables of Slurm's. This process's own of the same names do not come back.
StepShare share_with(std::map<std::string, std::string> variables) {
  variables.emplace("SLURM_STEP_GPUS", "0");
  for (const char* name : {"SLURMD_TRES_BIND", "SLURM_TRES_BIND", "SLURM_GPU_BIND", "SLURM_GPUS_PER_TASK",
                           "SLURM_NTASKS_PER_GPU", "SLURM_TRES_PER_TASK", "SLURM_STEP_GPUS", "SLURM_STEP_NODELIST"})
    ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  StepShare share = share_of_step();
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  return share;
}
bool bound_by(const std::string& name, const std::string& value) {
  const StepShare share = share_with({{name, value}});
  CHECK(share.gpus == (share.bound ? "" : "0"));
  return share.bound;
}
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

// As slurmd of 22.05 and later ones write them.
TEST_CASE("where Slurm binds tasks to GPUs, what it tells a task of its GPUs is not the step's") {
  CHECK(bound_by("SLURMD_TRES_BIND", "gpu:per_task:1"));
  CHECK(bound_by("SLURMD_TRES_BIND", "gres/gpu:single:1"));
  CHECK(bound_by("SLURM_TRES_BIND", "gres/gpu:closest"));
  CHECK(bound_by("SLURM_GPU_BIND", "single:1"));
  CHECK(bound_by("SLURM_GPUS_PER_TASK", "1"));
  CHECK(bound_by("SLURM_NTASKS_PER_GPU", "1"));
  CHECK(bound_by("SLURM_TRES_PER_TASK", "gres:gpu:1"));
  CHECK(bound_by("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu:h100=1"));
}

TEST_CASE("a step whose tasks are not bound to GPUs is told of all its GPUs") {
  CHECK_FALSE(share_with({}).bound);
  CHECK_FALSE(bound_by("SLURMD_TRES_BIND", "gpu:none"));
  CHECK_FALSE(bound_by("SLURM_GPU_BIND", "verbose,none"));
  CHECK_FALSE(share_with({{"SLURM_GPUS_PER_TASK", "1"}, {"SLURMD_TRES_BIND", "gres/gpu:none"}}).bound);
}
