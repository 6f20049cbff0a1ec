#include <doctest/doctest.h>

#include "planner/core/search_phase.hpp"
#include "planner/daemon/private_jobs.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("with PrivateData=jobs the jobs of others are not named, and those of the reader are") {
  SlurmSnapshot slurm;
  slurm.jobs[7].uid = 1000;
  slurm.jobs[12].uid = 1001;
  const auto shown = [&](const std::string& text) { return without_jobs_of_others(text, slurm, 1000); };
  const std::string text = "job 12 waits for room on n1, as job 7 and job 77 do";
  CHECK(shown(text) == text);
  slurm.private_jobs = true;
  CHECK(shown(text) == "another job waits for room on n1, as job 7 and another job do");
  CHECK(shown("job 12 and others wait") == "another job and others wait");
  CHECK(shown("for job 99999999999999999999") == "for another job");
  for (const char* const same : {"", "job ", "a job waits for 12 GPUs", "a subjob 12", "job 7"})
    CHECK(shown(same) == same);
}

TEST_CASE("explain tells nothing of another user's job that had the same number before") {
  Daemon daemon(true);
  ElasticJob before = job(10, "n1", {0, 1});
  DecisionRecord secret;
  secret.decision.job = 10;
  secret.decision.kind = DecisionKind::grow;
  secret.decision.plan = *before.plan;
  secret.decision.outcome = "committed";
  secret.decision.reason = "what the other user did";
  secret.phases_ms = {{kSearchPhase, 5}};
  secret.uid = 1001;
  daemon.store.add(secret);
  daemon.store.add(wire::Transition{10, 1, "running", "secret", "acquiring", 0, 1}, 1001);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  link->says(wire::Transition{10, 2, "running", "own", "acquiring", 0, 1});
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.private_jobs = true; });
  const wire::Config config;
  const Json answer = test::ask(daemon, config, {"explain", {{"job", 10}}}, 1000);
  CHECK(answer.dump().find("what the other user did") == std::string::npos);
  REQUIRE(answer.at("transitions").size() == 1);
  CHECK(answer.at("transitions").at(0).at("event") == "own");
  CHECK_FALSE(answer.at("job").contains("searched_lists"));
}
