#include "launcher/node/orphaned_step.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/node/orphan_questions.hpp"
#include "launcher/slurm/job_output.hpp"

using namespace espalier;
using namespace espalier::launcher;
using namespace std::chrono_literals;

namespace {

const OrphanQuestions::Time kLost{1000s};

// A job whose launcher and script ran on n1, and that has these nodes now.
SlurmJob job_on(const std::vector<std::string>& nodes) {
  SlurmJob job;
  job.id = 7;
  job.state = SlurmJob::State::running;
  job.batch_host = "n1";
  for (const std::string& node : nodes) job.holdings.push_back({7, node, {}});
  return job;
}

}  // namespace

TEST_CASE("a job that has its launcher's node is no orphan") {
  CHECK(orphan_of(job_on({"n1", "n2"}), "n1") == Orphan::none);
  CHECK(orphan_of(std::nullopt, "n1") == Orphan::none);
}

TEST_CASE("a job that ends, or waits to run once more, is left to Slurm") {
  SlurmJob job = job_on({"n2"});
  for (const auto state : {SlurmJob::State::pending, SlurmJob::State::completing, SlurmJob::State::ended}) {
    job.state = state;
    CHECK(orphan_of(job, "n1") == Orphan::none);
  }
}

TEST_CASE("a job that has lost its launcher and its script runs once more where it may, and ends where it may not") {
  SlurmJob job = job_on({"n2", "n3"});
  CHECK(orphan_of(job, "n1") == Orphan::ends);
  job.may_be_requeued = true;
  CHECK(orphan_of(job, "n1") == Orphan::requeue);
}

TEST_CASE("a job that has lost its launcher only loses the step: its script, or its user, goes on") {
  SlurmJob job = job_on({"n1", "n3"});
  job.may_be_requeued = true;
  CHECK(orphan_of(job, "n2") == Orphan::step);
  job = job_on({"n2"});
  job.batch_host.clear();  // of srun or salloc
  CHECK(orphan_of(job, "n1") == Orphan::step);
}

TEST_CASE("the launcher's node is the first one of the step") {
  const char* before = std::getenv("SLURM_STEP_NODELIST");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("SLURM_STEP_NODELIST", "n[3,5-6]", 1);
  CHECK(launchers_node() == "n3");
  ::unsetenv("SLURM_STEP_NODELIST");
  CHECK(launchers_node().empty());
  if (before != nullptr) ::setenv("SLURM_STEP_NODELIST", kept.c_str(), 1);
}

TEST_CASE("a keeper asks about its launcher's node only while there is no launcher, and had been one") {
  OrphanQuestions questions(1, 2);
  CHECK_FALSE(questions.asks(kLost));
  questions.lost(kLost);
  CHECK_FALSE(questions.asks(kLost + 30s));
  questions.lost(kLost + 30s);  // a try that failed is no other loss
  CHECK(questions.asks(kLost + 31s));
  CHECK_FALSE(questions.asks(kLost + 60s));
  CHECK(questions.asks(kLost + 61s));
  questions.found();
  CHECK_FALSE(questions.asks(kLost + 1h));
  questions.lost(kLost + 1h);
  CHECK_FALSE(questions.asks(kLost + 1h + 30s));
  CHECK(questions.asks(kLost + 1h + 31s));
}

TEST_CASE("thousands of keepers ask slurmctld once a second, all together") {
  constexpr int kNodes = 2048;
  std::vector<OrphanQuestions> keepers;
  for (int node = 1; node < kNodes; ++node) keepers.emplace_back(node, kNodes).lost(kLost);
  for (auto now = kLost; now < kLost + 2h; now += 1s) {
    int asking = 0;
    for (OrphanQuestions& keeper : keepers) asking += keeper.asks(now) ? 1 : 0;
    REQUIRE(asking <= 1);
    if (now > kLost + 30s && now < kLost + 30min) REQUIRE(asking == 1);
  }
}

TEST_CASE("a keeper that was stopped for a while asks once, and not for each question that it has missed") {
  OrphanQuestions questions(1, 2);
  questions.lost(kLost);
  CHECK(questions.asks(kLost + 1h));
  CHECK_FALSE(questions.asks(kLost + 1h + 1s));
}

TEST_CASE("the file of a job's errors is found in its record") {
  CHECK(output_in("JobId=7 WorkDir=/home/u StdErr=/home/u/a b.out StdIn=/dev/null StdOut=/home/u/a b.out Power=\n") ==
        "/home/u/a b.out");
  CHECK(output_in("JobId=7 StdErr=/home/u/7.err\nStdOut=/x").ends_with("7.err"));
  CHECK(output_in("JobId=7 WorkDir=/home/u Power=\n").empty());
  CHECK(output_in("").empty());
}

TEST_CASE("a line is added to a job's output that is there, and no file is made") {
  const auto folder = std::filesystem::temp_directory_path() / ("output-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / "a b.out";
  add_line(file, "lost");
  CHECK_FALSE(std::filesystem::exists(file));
  std::ofstream(file) << "step 1\n";
  add_line(file, "lost");
  add_line("", "lost");
  std::ifstream in(file);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "step 1\nlost\n");
  std::filesystem::remove_all(folder);
}
