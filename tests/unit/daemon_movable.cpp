// What the planner makes of movable jobs and their bases.
#include <doctest/doctest.h>

#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/strays.hpp"

namespace {

using namespace espalier;

SlurmJob slurm_job(JobId id, const std::string& comment, SlurmJobState state, uid_t uid = 1000) {
  SlurmJob job;
  job.id = id;
  job.uid = uid;
  job.comment = comment;
  job.partition = "main";
  job.state = state;
  if (state == SlurmJobState::running) job.holdings = {{id, "n1", {0, 1}}};
  return job;
}

// Job 5 is movable, and job 7 its base.
SlurmSnapshot snapshot(double time = 100) {
  SlurmSnapshot slurm;
  slurm.time = time;
  slurm.jobs[5] = slurm_job(5, "", SlurmJobState::running);
  slurm.jobs[5].holdings.clear();
  slurm.jobs[7] = slurm_job(7, "espalier:base:5:abc", SlurmJobState::running);
  return slurm;
}

ElasticJob job() {
  ElasticJob job;
  job.id = 5;
  job.uid = 1000;
  job.max_gpus = 8;
  job.anchor = {{7, "n1", {0, 1}}};
  return job;
}

TEST_CASE("the comment of a base names its job, and no other comment does") {
  CHECK(submitted_of_base("espalier:base:5:abc") == 5);
  for (const char* comment : {"", "espalier:base:", "espalier:base:5", "espalier:base:x:abc", "espalier:ext:5:abc"})
    CHECK(submitted_of_base(comment) == 0);
  CHECK(anchor_of_comment("espalier:base:5:abc") == 0);
}

TEST_CASE("the GPUs of a base count as its job's only where Slurm says that the base is the job's and runs") {
  CHECK(confirmed(job(), snapshot(), 64).anchor == job().anchor);
  SlurmSnapshot others = snapshot();
  SUBCASE("of another user") { others.jobs[7].uid = 1001; }
  SUBCASE("of another job") { others.jobs[7].comment = "espalier:base:6:abc"; }
  SUBCASE("without a comment") { others.jobs[7].comment.clear(); }
  SUBCASE("waiting") { others.jobs[7].state = SlurmJobState::pending; }
  SUBCASE("gone") { others.jobs.erase(7); }
  CHECK(confirmed(job(), others, 64).anchor.empty());
}

TEST_CASE("GPUs where workers died count as the job's own again where Slurm says that they are its") {
  ElasticJob left = job();
  left.anchor = {{7, "n1", {1}}};
  left.unfit = {{"n1", 0}, {"n1", 1}, {"n1", 3}, {"n2", 0}};  // n1/3 and n2/0: of extensions
  CHECK(confirmed(left, snapshot(), 64).anchor == left.anchor);
  CHECK(confirmed(with_unfit(left), snapshot(), 64).anchor == std::vector<Holding>{{7, "n1", {1, 0}}});
  SlurmSnapshot others = snapshot();
  others.jobs[7].uid = 1001;
  CHECK(confirmed(with_unfit(left), others, 64).anchor.empty());
  // A job that is not movable, with an own node of which nothing else is left.
  left.anchor = {{5, "n1", {1}}};
  left.unfit = {{"n2", 0}};
  others.jobs[5].holdings = {{5, "n1", {0, 1}}, {5, "n2", {0}}};
  CHECK(confirmed(with_unfit(left), others, 64).anchor == std::vector<Holding>{{5, "n1", {1}}, {5, "n2", {0}}});
}

TEST_CASE("a base whose submitted job has ended or is another user's is a stray after 10 s") {
  Strays strays("elastic");
  SlurmSnapshot slurm = snapshot();
  SUBCASE("ended") { slurm.jobs[5].state = SlurmJobState::ended; }
  SUBCASE("unknown") { slurm.jobs.erase(5); }
  SUBCASE("another user's") { slurm.jobs[5].uid = 1001; }
  CHECK(strays.look_at_bases(slurm, {}).empty());
  slurm.time += 11;
  REQUIRE(strays.look_at_bases(slurm, {}).size() == 1);
  CHECK(strays.look_at_bases(slurm, {}).empty());  // named again in 10 s
}

TEST_CASE("a waiting base is a stray, too") {
  Strays strays("elastic");
  SlurmSnapshot slurm = snapshot();
  slurm.jobs[7].state = SlurmJobState::pending;
  slurm.jobs.erase(5);
  strays.look_at_bases(slurm, {});
  slurm.time += 11;
  CHECK(strays.look_at_bases(slurm, {}).size() == 1);
}

TEST_CASE("a base stays while its submitted job waits to run again") {
  Strays strays("elastic");
  SlurmSnapshot slurm = snapshot();
  slurm.jobs[5].state = SlurmJobState::pending;
  strays.look_at_bases(slurm, {});
  slurm.time += 300;
  CHECK(strays.look_at_bases(slurm, {}).empty());
}

}  // namespace
