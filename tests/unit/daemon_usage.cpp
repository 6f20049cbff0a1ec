// What trainings use: GPU seconds trained and paused, and the allocations that Slurm tells of.
#include <doctest/doctest.h>

#include "planner/daemon/answers.hpp"
#include "planner/daemon/usage.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

ElasticJob training_on(int gpus, JobPhase phase = JobPhase::running) {
  ElasticJob one = job(10, "n1", {0});
  one.phase = phase;
  one.plan = Plan{};
  one.plan->stages.resize(1);
  one.plan->stages[0].replicas.resize(1);
  for (int i = 0; i < gpus; ++i) one.plan->stages[0].replicas[0].gpus.push_back({"n1", i});
  return one;
}

SlurmJob allocation(JobId id, std::vector<int> gpus, double started, std::string comment = "") {
  SlurmJob one = slurm_job(id, 1000, {{id, "n1", std::move(gpus)}}, std::move(comment));
  one.started = started;
  return one;
}

}  // namespace

TEST_CASE("GPU seconds are those of the plan that runs; pauses and recoveries are told apart") {
  TrainingUsage usage;
  usage.report(training_on(2, JobPhase::launching), 100);
  usage.report(training_on(2), 110);  // launching counts for nothing
  CHECK(usage.trained == 0);
  usage.report(training_on(2), 120);
  CHECK(usage.trained == doctest::Approx(20));
  usage.pause(0.5, 130);
  CHECK(usage.trained == doctest::Approx(39));
  CHECK(usage.paused == doctest::Approx(1));
  usage.report(training_on(8), 130);
  usage.report(training_on(8, JobPhase::recovering), 140);
  CHECK(usage.trained == doctest::Approx(119));
  usage.report(training_on(4), 142);
  CHECK(usage.paused == doctest::Approx(17));
  usage.end(152);
  usage.report(training_on(4, JobPhase::ending), 200);
  usage.report(training_on(4, JobPhase::ending), 300);
  CHECK(usage.trained == doctest::Approx(159));
  CHECK(usage.paused == doctest::Approx(17));
  // A launcher tells how long a pause was. It cannot make time negative, nor take more than there was.
  TrainingUsage other;
  other.report(training_on(2), 100);
  other.pause(1e9, 110);
  CHECK(other.trained == 0);
  CHECK(other.paused == doctest::Approx(20));
  other.pause(-5, 110);
  CHECK(other.paused == doctest::Approx(20));
  other.report(training_on(2), 50);  // the clock was set back
  CHECK(other.trained == 0);
}

TEST_CASE("the base of a movable job is told from its extensions, and no job elsewhere is taken for one of them") {
  Folder folder;
  Store store(folder.file("test.db"));
  Allocations allocations(store, "elastic");
  SlurmSnapshot slurm;
  slurm.time = 100;
  slurm.jobs[10] = allocation(10, {}, 50);
  slurm.jobs[11] = allocation(11, {0, 1}, 55, "espalier:base:10:ab");
  slurm.jobs[20] = allocation(20, {2, 3}, 60, "espalier:ext:10:ab");
  slurm.jobs[21] = allocation(21, {0}, 60, "espalier:ext:10:cd");
  slurm.jobs[11].partition = slurm.jobs[21].partition = "main";
  slurm.jobs[20].partition = "elastic";
  allocations.look(slurm, {10});
  const auto found = store.allocations(10);
  REQUIRE(found.size() == 3);
  CHECK(found[0].job == 10);
  CHECK(found[1].job == 11);
  CHECK(found[1].base);
  CHECK(found[2].job == 20);
  CHECK_FALSE(found[2].base);
}

TEST_CASE("allocations are written down with Slurm's own times") {
  Folder folder;
  Store store(folder.file("test.db"));
  Allocations allocations(store);
  SlurmSnapshot slurm;
  slurm.time = 100;
  slurm.jobs[10] = allocation(10, {0, 1}, 50);
  slurm.jobs[20] = allocation(20, {2, 3}, 60, "espalier:ext:10:ab");
  slurm.jobs[21] = allocation(21, {0}, 60, "espalier:ext:11:ab");  // of no elastic job
  slurm.jobs[22] = allocation(22, {0}, 60, "espalier:ext:10:cd");  // another user's
  slurm.jobs[22].uid = 1001;
  slurm.jobs[23] = allocation(23, {}, 0, "espalier:ext:10:ef");  // waits
  slurm.jobs[23].state = SlurmJobState::pending;
  allocations.look(slurm, {10});
  auto found = store.allocations(10);
  REQUIRE(found.size() == 2);
  CHECK(found[0].job == 10);
  CHECK(found[0].gpus == 2);
  CHECK(found[1].job == 20);
  CHECK(found[1].started == 60);
  CHECK(found[1].ended == 0);
  slurm.jobs[20].state = SlurmJobState::ended;
  slurm.jobs[20].holdings.clear();
  slurm.jobs[20].ended = 97;
  // Came and went between two looks: its record names no GPUs any more.
  slurm.jobs[24] = allocation(24, {}, 95, "espalier:ext:10:gh");
  slurm.jobs[24].state = SlurmJobState::ended;
  slurm.jobs[24].ended = 96;
  slurm.jobs[24].wanted_gpus = 3;
  // Was cancelled while it waited.
  slurm.jobs[25] = allocation(25, {}, 96, "espalier:ext:10:ij");
  slurm.jobs[25].state = SlurmJobState::ended;
  slurm.jobs[25].ended = 96;
  allocations.look(slurm, {10});
  found = store.allocations(10);
  REQUIRE(found.size() == 3);
  CHECK(found[1].ended == 97);
  CHECK(found[1].gpus == 2);
  CHECK(found[2].gpus == 3);
  CHECK(found[2].exact);
  CHECK(store.open_allocations().size() == 1);
  // Requeued: Slurm tells of the new run only, and does not tell when the run before ended.
  const SlurmJob runs = slurm.jobs[10];
  slurm.jobs[10].state = SlurmJobState::pending;
  slurm.jobs[10].holdings.clear();
  slurm.jobs[10].started = 0;
  for (slurm.time = 120; slurm.time < 200; slurm.time += 20) allocations.look(slurm, {10});
  found = store.allocations(10);
  REQUIRE(found.size() == 3);
  CHECK(found[0].ended == 120);
  CHECK_FALSE(found[0].exact);
  slurm.jobs[10] = runs;
  slurm.jobs[10].started = 200;
  allocations.look(slurm, {10});
  found = store.allocations(10);
  REQUIRE(found.size() == 4);
  CHECK(found[0].ended == 120);
  CHECK(found[3].started == 200);
  CHECK(found[3].ended == 0);
  // Between two looks.
  slurm.jobs[20].state = SlurmJobState::running;
  slurm.jobs[20].started = 210;
  slurm.jobs[20].ended = 0;
  allocations.look(slurm, {10});
  slurm.jobs[20].started = 230;
  allocations.look(slurm, {10});
  found = store.allocations(10);
  REQUIRE(found.size() == 6);
  CHECK(found[4].ended == 230);
  CHECK_FALSE(found[4].exact);
  // It ends while no planner runs, and Slurm forgets it.
  Allocations restarted(store);
  slurm.jobs.clear();
  slurm.time = 900;
  restarted.look(slurm, {});
  found = store.allocations(10);
  CHECK(found[3].ended == 900);
  CHECK_FALSE(found[3].exact);
  CHECK(store.open_allocations().empty());
}

TEST_CASE("a training's GPU seconds outlive the planner, and go with the job's record") {
  Folder folder;
  TrainingUsage usage;
  usage.trained = 12.5;
  usage.paused = 0.5;
  usage.until = 1000;
  usage.gpus = 4;
  {
    Store store(folder.file("test.db"));
    store.save(10, usage);
    store.save(training_on(2), 1000);
    store.save({10, 10, 1000, 2, 50, 90, true});
  }
  Store store(folder.file("test.db"));
  const auto kept = store.training(10);
  REQUIRE(kept);
  CHECK(kept->trained == 12.5);
  CHECK(kept->until == 1000);
  CHECK(kept->gpus == 4);
  CHECK_FALSE(store.training(11));
  CHECK(store.jobs_of(training_on(2).uid, 0, 10) == std::vector<JobId>{10});
  CHECK(store.jobs_of(training_on(2).uid, 11, 10).empty());
  store.end(10, 0, 1100);
  store.prune(100, 100);  // no decision is about it: its record goes
  CHECK_FALSE(store.training(10));
  CHECK(store.allocations(10).empty());
}
