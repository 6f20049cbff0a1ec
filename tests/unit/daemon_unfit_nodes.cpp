// Nodes on which workers of two jobs died again and again: their user's other jobs get no GPUs there for an hour.
#include <doctest/doctest.h>

#include <memory>

#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/unfit_nodes.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;
using Nodes = std::set<std::string>;
using Names = std::vector<std::string>;

TEST_CASE("what a job finds holds for its user's other jobs, for an hour after it was last reported") {
  UnfitNodes unfit;
  CHECK(unfit.note(1000, 7, {{"n1", 0}, {"n1", 3}, {"n2", 1}}, 100) == Names{"n1", "n2"});
  CHECK(unfit.note(1000, 7, {{"n1", 0}}, 200).empty());
  CHECK(unfit.note(1000, 7, {}, 300).empty());
  CHECK(unfit.of(1000, 8, 300).empty());  // it may be the program's fault
  CHECK(unfit.note(1000, 6, {{"n1", 2}, {"n2", 0}, {"n3", 0}}, 300) == Names{"n1", "n2", "n3"});
  CHECK(unfit.of(1000, 8, 300) == Nodes{"n1", "n2"});
  CHECK(unfit.of(1000, 7, 300).empty());  // the job knows by itself which GPUs
  CHECK(unfit.of(1001, 8, 300).empty());
  CHECK(unfit.of(1000, 8, 100 + 3600) == Nodes{"n1"});
  CHECK(unfit.of(1000, 8, 200 + 3600).empty());
  CHECK(unfit.note(1000, 7, {{"n1", 0}}, 200 + 3600) == Names{"n1"});  // anew
}

TEST_CASE("an admin sees for how many jobs a node is unfit, whoever they are of") {
  UnfitNodes unfit;
  unfit.note(1000, 7, {{"n1", 0}}, 0);
  unfit.note(1000, 8, {{"n1", 0}, {"n2", 0}}, 0);
  unfit.note(1001, 9, {{"n1", 1}}, 0);
  CHECK(unfit.all(10) == std::map<std::string, int>{{"n1", 3}, {"n2", 1}});
  CHECK(unfit.all(3600).empty());
}

TEST_CASE("of what one job reports a bounded number of nodes is kept") {
  UnfitNodes unfit;
  std::vector<GpuId> many;
  for (int i = 0; i < 1000; ++i) many.push_back({"n" + std::to_string(i), 0});
  CHECK(unfit.note(1000, 7, many, 0).size() == UnfitNodes::kMostNodes);
  CHECK(unfit.note(1000, 7, many, 1).empty());
  unfit.note(1000, 9, many, 1);
  CHECK(unfit.of(1000, 8, 2).size() == UnfitNodes::kMostNodes);
}

TEST_CASE("of what one user's jobs report a bounded number is kept, and there is room again when it has run out") {
  UnfitNodes unfit;
  std::vector<GpuId> many;
  for (std::size_t i = 0; i < UnfitNodes::kMostNodes; ++i) many.push_back({"n" + std::to_string(i), 0});
  std::size_t kept = 0;
  for (JobId job = 1; job <= 100; ++job) kept += unfit.note(1000, job, many, 0).size();
  CHECK(kept == UnfitNodes::kMostOfUser);
  CHECK(unfit.note(1001, 200, many, 0).size() == UnfitNodes::kMostNodes);  // at no other user's cost
  CHECK(unfit.note(1000, 101, {{"n1", 0}}, 1).empty());
  CHECK(unfit.note(1000, 101, {{"n1", 0}}, 3700) == Names{"n1"});
  CHECK(unfit.all(3701) == std::map<std::string, int>{{"n1", 1}});
}

TEST_CASE("names that are no nodes of the cluster are not kept") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  ElasticJob report = job(10, "n1", {0, 1});
  report.unfit = {{"n2", 1}, {"nowhere", 0}, {std::string(255, 'x'), 0}};
  link->says(wire::Status{report});
  REQUIRE_FALSE(link->closed);
  CHECK(daemon.planner->view()->unfit == std::map<std::string, int>{{"n2", 1}});
}

TEST_CASE("an unfit node is closed to the extensions of the user's other jobs, and to nobody else's") {
  SlurmSnapshot slurm;
  slurm.time = 1000;
  slurm.cluster.nodes = {node("n1", 4), node("n2", 4), node("n3", 4)};
  std::map<JobId, LiveJob> jobs;
  for (const auto& [id, uid, node] : {std::tuple{10, 1000, "n1"}, {11, 1000, "n2"}, {12, 1001, "n3"}}) {
    run_job(slurm, slurm_job(static_cast<JobId>(id), static_cast<uid_t>(uid), {{static_cast<JobId>(id), node, {0}}}));
    LiveJob& live = jobs[static_cast<JobId>(id)];
    live.link = std::make_shared<TestLink>(static_cast<uid_t>(uid));
    live.job = job(static_cast<JobId>(id), node, {0});
    live.job.uid = static_cast<uid_t>(uid);
  }
  UnfitNodes unfit;
  for (const JobId finder : {8, 10}) unfit.note(1000, finder, {{"n2", 1}}, slurm.time);
  PlanningContext context{64, "elastic", nullptr};
  context.findings.unfit = &unfit;
  const auto input = make_input(slurm, jobs, Trigger::timer, context);
  const auto closed = [&](JobId id) {
    const auto at = input.closed.find(id);
    return at == input.closed.end() || !at->second ? Names{} : *at->second;
  };
  CHECK(input.jobs.size() == 3);
  CHECK(closed(10).empty());
  CHECK(closed(11) == Names{"n2"});
  CHECK(closed(12).empty());
}
