// The command line of `espalier plan`.
#include <doctest/doctest.h>

#include "planner/cli/commands.hpp"

using namespace espalier;
using namespace espalier::cli;

namespace {

std::string complaint(const std::vector<std::string>& arguments) {
  try {
    const Arguments parsed = parse_arguments(arguments);
    if (parsed.plans()) plan(parsed);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("--job is a file for plan, wherever the command stands, and a job id for the others") {
    const Arguments a = parse_arguments({"--job", "a.toml", "plan", "--cluster=c.toml", "--gpus", "16,8,16"});
    CHECK(a.plans());
    CHECK(a.job_file == "a.toml");
    CHECK(a.job.empty());
    CHECK(a.cluster == "c.toml");
    CHECK(a.gpu_counts == std::vector<int>{8, 16});
    CHECK(parse_arguments({"show", "decisions", "--job=7"}).job == "7");
    CHECK(parse_arguments({"plan", "-h"}).help);
  }

  TEST_CASE("each wrong argument is a usage error that names it") {
    CHECK(complaint({"plan"}) == "plan: needs --job=FILE");
    CHECK(complaint({"plan", "--job=j"}) == "plan: needs --cluster=FILE");
    CHECK(complaint({"plan", "--job=j", "--cluster=c"}) == "plan: needs --gpus=N[,N...]");
    CHECK(complaint({"plan", "8"}) == "\"8\": one operand too many");
    CHECK(complaint({"plan", "--gpus"}) == "--gpus: needs a value");
    for (const char* wrong : {"", "0", "x", "-1", "8x", "1.5", "99999999999"})
      CHECK(complaint({"plan", std::string("--gpus=") + wrong}) ==
            std::string("--gpus: \"") + wrong + "\" is not a number of GPUs; write 8 or 8,16,32");
    CHECK(complaint({"plan", "--gpus=8,,16"}).starts_with("--gpus: \"\" is not"));
    CHECK(complaint({"plan", "--gpus=8,"}).starts_with("--gpus: \"\" is not"));
    CHECK(complaint({"plan", "--limit=3"}) == "--limit: not with plan");
    CHECK(complaint({"plan", "--config=f"}) == "--config: not with plan, which needs no configuration");
    CHECK(complaint({"plan", "--profiles=a,,b", "--cluster=c"}) ==
          "--profiles: \"a,,b\" names an empty file; write a.json,b.json");
    CHECK(complaint({"plan", "--profiles=a"}) == "plan: --profiles needs --cluster=FILE, for its network");
    CHECK(complaint({"plan", "--profiles=a", "--cluster=c", "--job=j"}) ==
          "--job: not together with --profiles, which tell of the job");
    CHECK(complaint({"plan", "--profiles=a", "--cluster=c", "--gpus=8"}) ==
          "--gpus: not together with --profiles, whose plan has its GPUs");
    CHECK(complaint({"plan", "--profiles=a", "--cluster=c", "--schedule=1f1b"}) ==
          "--schedule: not together with --profiles, whose plan names it");
    CHECK(complaint({"show", "jobs", "--profiles=a"}) == "--profiles: only with plan");
    CHECK(complaint({"show", "jobs", "--cluster=c"}) == "--cluster: only with plan");
    CHECK(complaint({"show", "jobs", "--gpus=8"}) == "--gpus: only with plan");
    CHECK(complaint({"show", "decisions", "--job=a.toml"}) == "--job: \"a.toml\" is not a job id");
  }
}
