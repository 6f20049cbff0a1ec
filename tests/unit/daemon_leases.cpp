// Extensions' time limits, which are prolonged while nobody waits for their nodes.
#include <doctest/doctest.h>

#include "planner/daemon/leases.hpp"
#include "planner/daemon/planning_input.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Job 10 on n1, with extension 20 on n2 that started at 1000 with a limit of 60 minutes.
struct Lent {
  SlurmSnapshot slurm;
  std::map<JobId, LiveJob> jobs;
  SchedulerOptions options;
  Leases leases;

  Lent() {
    slurm.cluster.nodes = {node("n1", 4), node("n2", 4)};
    run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1, 2, 3}}}));
    run_job(slurm, slurm_job(20, 1000, {{20, "n2", {0, 1, 2, 3}}}, "espalier:ext:10:0123abcd"));
    slurm.jobs[20].started = 1000;
    slurm.jobs[20].ends = 1000 + 3600;
    LiveJob& live = jobs[10];
    live.job = job(10, "n1", {0, 1, 2, 3});
    live.job.uid = 1000;
    live.job.phase = JobPhase::running;
    extend(live.job, 20, "n2", {0, 1, 2, 3});
    live.link = std::make_shared<TestLink>(1000);
    slurm.time = 1000 + 50 * 60;
  }

  std::vector<Renewal> renewals() {
    const auto due = leases.due(slurm, jobs, options.max_lease_minutes);
    return renewed(due, make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr}), options);
  }
};

}  // namespace

TEST_CASE("an extension that nobody waits for is prolonged before it ends, by a lease from now on") {
  Lent one;
  CHECK(one.renewals() == std::vector<Renewal>{{20, 10, "n2", 110}});
  CHECK(one.renewals().empty());  // Slurm is asked
  one.slurm.time += 21;
  CHECK(one.renewals() == std::vector<Renewal>{{20, 10, "n2", 110}});  // and has not done it
}

TEST_CASE("an extension is not prolonged") {
  Lent one;
  SUBCASE("long before it ends") { one.slurm.time = 1000 + 44 * 60; }
  SUBCASE("that has no limit") { one.slurm.jobs[20].ends = 0; }
  SUBCASE("that Slurm takes back") { one.slurm.jobs[20].preempted = true; }
  SUBCASE("that ends") { one.slurm.jobs[20].state = SlurmJobState::completing; }
  SUBCASE("that its job does not name") { one.jobs[10].job.extensions.clear(); }
  SUBCASE("whose launcher is away") { one.jobs[10].link.reset(); }
  SUBCASE("whose job carries out a decision") { one.jobs[10].open.emplace(); }
  SUBCASE("whose job is between generations") { one.jobs[10].job.phase = JobPhase::switching; }
  SUBCASE("of another user's comment") { one.slurm.jobs[20].uid = 1001; }
  SUBCASE("of another job's comment") { one.slurm.jobs[20].comment = "espalier:ext:11:0123abcd"; }
  SUBCASE("that a waiting job gets") { one.slurm.cluster.waiting = {{30, 4, 1, {"n2"}, {}}}; }
  SUBCASE("beyond the start of a job that waits for the node") {
    one.slurm.cluster.waiting = {{30, 8, 2, {}, one.slurm.time + 11 * 60}};
  }
  SUBCASE("of a job that is not planned for now") {
    one.jobs[10].not_before = one.slurm.time + 60;
    one.jobs[10].failed_to_shrink = true;
  }
  SUBCASE("on a node that goes out of service") { one.slurm.cluster.nodes[1].usable = false; }
  CHECK(one.renewals().empty());
}

TEST_CASE("where a job waits for the node, an extension is prolonged until before its start") {
  Lent one;
  one.slurm.cluster.waiting = {{30, 8, 2, {}, one.slurm.time + 30 * 60}};
  // 30 minutes without KillWait and a minute are 28 whole ones.
  CHECK(one.renewals() == std::vector<Renewal>{{20, 10, "n2", 78}});
}

TEST_CASE("an extension is not prolonged on a node that is closed to its job") {
  Lent one;
  const auto due = one.leases.due(one.slurm, one.jobs, 60);
  auto input = make_input(one.slurm, one.jobs, Trigger::timer, {64, "elastic", nullptr});
  CHECK(renewed(due, input, one.options).size() == 1);
  input.closed[10] = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"n2"});
  CHECK(renewed(due, input, one.options).empty());
}

TEST_CASE("a short lease is prolonged a minute before it ends") {
  Lent one;
  one.options.max_lease_minutes = 2;
  one.slurm.jobs[20].ends = 1000 + 120;
  one.slurm.time = 1055;
  CHECK(one.renewals().empty());
  one.slurm.time = 1061;
  CHECK(one.renewals() == std::vector<Renewal>{{20, 10, "n2", 3}});
}
