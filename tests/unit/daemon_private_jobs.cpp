#include <doctest/doctest.h>

#include "planner/daemon/private_jobs.hpp"

using namespace espalier;

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
