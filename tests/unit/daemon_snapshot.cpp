// Pure functions that read snapshots: strays, releases, a pending job's request, events.
#include <doctest/doctest.h>

#include "planner/core/data_parallel.hpp"
#include "planner/daemon/event_dispatch.hpp"
#include "planner/daemon/gpu_request.hpp"
#include "planner/daemon/growth_obstacles.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/slurm_nodes.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("GPUs that a pending job asks for") {
  CHECK(requested_gpus({"gres:gpu:20", "", "", "", 1, 1, 1}) == 20);
  CHECK(requested_gpus({"", "gres:gpu:h100:4", "", "", 2, 1, 1}) == 8);
  CHECK(requested_gpus({"", "gres:gpu", "", "", 3, 1, 1}) == 3);
  CHECK(requested_gpus({"", "", "", "gres:gpu:2", 1, 5, 1}) == 10);
  CHECK(requested_gpus({"", "", "gres/gpu=2", "", 2, 1, 2}) == 8);
  CHECK(requested_gpus({"", "nic:2;gpu:1", "", "", 1, 1, 1}) == 1);
  CHECK(requested_gpus({"", "nic:2", "", "", 1, 1, 1}) == 0);
  CHECK(requested_gpus({"gres:gpu:99999999999", "", "", "", 1, 1, 1}) == 0);
}

TEST_CASE("the anchor in an extension's comment") {
  CHECK(anchor_of_comment("espalier:ext:12:9f") == 12);
  CHECK(anchor_of_comment("espalier:ext:12") == 0);
  CHECK(anchor_of_comment("espalier:ext::9f") == 0);
  CHECK(anchor_of_comment("espalier:ext:-3:9f") == 0);
  CHECK(anchor_of_comment("espalier:ext:99999999999:9f") == 0);
  CHECK(anchor_of_comment("my job") == 0);
}

TEST_CASE("an extension without its anchor is a stray after ten seconds") {
  Strays strays("elastic");
  SlurmSnapshot slurm;
  slurm.jobs[20] = slurm_job(20, 1000, {}, "espalier:ext:10:ab");
  slurm.jobs[10] = slurm_job(10, 1000, {});
  slurm.time = 100;
  CHECK(strays.look(slurm, {}).empty());
  slurm.jobs[10].state = SlurmJobState::ended;
  CHECK(strays.look(slurm, {}).empty());
  slurm.time = 109;
  CHECK(strays.look(slurm, {}).empty());
  slurm.time = 111;
  const auto found = strays.look(slurm, {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].extension == 20);
  slurm.time = 112;
  CHECK(strays.look(slurm, {}).empty());  // its end is under way
  slurm.time = 122;
  CHECK(strays.look(slurm, {}).size() == 1);  // still there
  slurm.jobs[20].state = SlurmJobState::ended;
  slurm.time = 140;
  CHECK(strays.look(slurm, {}).empty());
}

TEST_CASE("an extension that its anchor's launcher does not claim is a stray after thirty seconds") {
  Strays strays("elastic");
  SlurmSnapshot slurm;
  slurm.jobs[20] = slurm_job(20, 1000, {}, "espalier:ext:10:ab");
  slurm.jobs[10] = slurm_job(10, 1000, {});
  std::map<JobId, LiveJob> jobs;
  jobs[10].job = job(10, "n1", {0, 1});
  jobs[10].link = std::make_shared<TestLink>(1000);
  slurm.time = 100;
  CHECK(strays.look(slurm, jobs).empty());
  slurm.time = 131;
  CHECK(strays.look(slurm, jobs).size() == 1);
  extend(jobs[10].job, 20, "n2", {0});
  slurm.time = 200;
  CHECK(strays.look(slurm, jobs).empty());
}

TEST_CASE("a job of another partition is never a stray, whatever its comment says") {
  Strays strays("elastic");
  SlurmSnapshot slurm;
  slurm.jobs[20] = slurm_job(20, 1000, {}, "espalier:ext:10:ab");
  slurm.jobs[20].partition = "main";
  for (slurm.time = 100; slurm.time < 200; slurm.time += 20) CHECK(strays.look(slurm, {}).empty());
}

TEST_CASE("released GPUs are waited for until Slurm shows them, or for three seconds") {
  Releases releases;
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 2), node("n2", 2)};
  run_job(slurm, slurm_job(5, 1, {{5, "n1", {0}}, {5, "n2", {0}}}));
  releases.reported(5, "n1", 100);
  slurm.time = 100.1;
  releases.look(slurm);
  CHECK(releases.waiting());
  slurm.cluster.nodes[0].gpu_owner[0] = 0;  // the job's other node is not free yet
  releases.look(slurm);
  CHECK(releases.waiting());
  slurm.jobs[5].state = SlurmJobState::ended;
  slurm.cluster.nodes[1].gpu_owner[0] = 0;
  releases.look(slurm);
  CHECK_FALSE(releases.waiting());
  CHECK(releases.take_first() == 100);
  CHECK_FALSE(releases.take_first());

  slurm.cluster.nodes[0].gpu_owner[0] = 6;
  releases.reported(6, "n1", 200);
  slurm.time = 203.5;
  releases.look(slurm);
  CHECK_FALSE(releases.waiting());
  CHECK_FALSE(releases.take_first());
}

TEST_CASE("no decision waits for longer than three seconds for released GPUs, however many jobs end") {
  Releases releases;
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 2)};
  run_job(slurm, slurm_job(5, 1, {{5, "n1", {0}}}));  // the site's Epilog runs on n1 for a long time
  double last = 100;
  int decisions = 0;
  for (slurm.time = 100; slurm.time < 130; slurm.time += 0.5) {
    releases.reported(5, "n1", slurm.time);
    releases.look(slurm);
    CHECK(releases.waiting());
    if (releases.hold_decision(slurm.time)) continue;
    CHECK(slurm.time - last <= 3.5);
    last = slurm.time;
    ++decisions;
    releases.decided();
  }
  CHECK(decisions >= 8);
  Releases none;
  CHECK_FALSE(none.hold_decision(100));
  none.reported(5, "n1", 100);
  CHECK(none.next_look(100) == doctest::Approx(0.02));
  CHECK(none.next_look(102) == doctest::Approx(0.5));
}

TEST_CASE("a used GPU belongs to the job that runs, not to the one that is completing") {
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 4)};
  slurm.cluster.nodes[0].gpu_owner = {kUnknownOwner, kUnknownOwner, kUnknownOwner, 0};
  slurm.jobs[1] = slurm_job(1, 0, {{1, "n1", {0, 1, 3}}});
  slurm.jobs[1].state = SlurmJobState::completing;
  slurm.jobs[2] = slurm_job(2, 0, {{2, "n1", {1}}});
  assign_owners(slurm);
  CHECK(slurm.cluster.nodes[0].gpu_owner == std::vector<JobId>{1, 2, kUnknownOwner, 0});
  CHECK(slurm.cluster.nodes[0].freeing == std::vector<int>{0});
}

TEST_CASE("a node where a job does not get done with completing takes no growth") {
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 2), node("n2", 2), node("n3", 2)};
  slurm.jobs[1] = slurm_job(1, 0, {{1, "n1", {0}}});
  slurm.jobs[2] = slurm_job(2, 0, {{2, "n2", {0}}});
  for (const JobId id : {1, 2}) {
    slurm.jobs[id].state = SlurmJobState::completing;
    slurm.jobs[id].ended = id == 1 ? 100 : 104;
  }
  slurm.jobs[3] = slurm_job(3, 0, {{3, "n3", {0}}});
  slurm.time = 106;
  for (NodeView& one : slurm.cluster.nodes) {
    one.free_cpus = 8;
    one.gpu_owner[0] = kUnknownOwner;
  }
  assign_owners(slurm);
  // A long Epilog: its GPUs are for jobs that wait.
  CHECK(slurm.cluster.nodes[0].usable);
  CHECK(slurm.cluster.nodes[0].free_cpus == 0);
  CHECK(slurm.cluster.nodes[0].freeing == std::vector<int>{0});
  CHECK(slurm.cluster.nodes[1].free_cpus == 8);
  CHECK(slurm.cluster.nodes[2].free_cpus == 8);
  slurm.time = 161;
  assign_owners(slurm);
  CHECK_FALSE(slurm.cluster.nodes[0].usable);
  CHECK(slurm.cluster.nodes[1].usable);
  CHECK(slurm.cluster.nodes[2].usable);
}

TEST_CASE("an open growth keeps what it was promised, as far as Slurm has not granted it") {
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 4)};
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0}}}));
  std::map<JobId, LiveJob> jobs;
  jobs[10].job = job(10, "n1", {0});
  jobs[10].job.uid = 1000;
  jobs[10].link = std::make_shared<TestLink>(1000);
  jobs[10].open.emplace();
  jobs[10].open->decision.job = 10;
  jobs[10].open->decision.acquire = {{"n1", 2, 2, 100, 60}};
  auto input = make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr});
  CHECK(input.jobs.empty());
  CHECK(input.cluster.nodes[0].idle_gpus() == 1);
  run_job(slurm, slurm_job(20, 1000, {{20, "n1", {2, 3}}}, "espalier:ext:10:ab"));
  input = make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr});
  CHECK(input.cluster.nodes[0].idle_gpus() == 1);
}

TEST_CASE("of several open decisions each keeps its own promises, and all that they release is about to be idle") {
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 8), node("n2", 8)};
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0}}}));
  run_job(slurm, slurm_job(11, 1001, {}));
  run_job(slurm, slurm_job(12, 1001, {{12, "n2", {0}}}, "espalier:base:11:ab"));
  run_job(slurm, slurm_job(20, 1000, {{20, "n1", {1}}}, "espalier:ext:10:ab"));   // from before
  run_job(slurm, slurm_job(21, 1000, {{21, "n2", {1}}}, "espalier:ext:10:ac"));   // granted since
  run_job(slurm, slurm_job(22, 1002, {{22, "n1", {2}}}, "espalier:ext:10:ad"));   // another user says so
  run_job(slurm, slurm_job(23, 1001, {{23, "n2", {2}}}, "espalier:base:11:ae"));  // a second base
  std::map<JobId, LiveJob> jobs;
  for (const JobId id : {10, 11}) {
    jobs[id].job.id = id;
    jobs[id].job.uid = id == 10 ? 1000 : 1001;
    jobs[id].job.phase = JobPhase::running;
    jobs[id].open.emplace();
  }
  jobs[10].before = {20};
  jobs[10].open->decision.acquire = {{"n1", 1}, {"n2", 3}};
  jobs[10].open->decision.release = {20};
  jobs[11].before = {12};
  jobs[11].open->decision.acquire = {{"n2", 2}};
  jobs[11].open->decision.release = {12};
  const LentJobs lent(slurm);
  CHECK(lent.granted_since(jobs[10]) == std::map<std::string, int>{{"n2", 1}});
  CHECK(lent.granted_since(jobs[11]) == std::map<std::string, int>{{"n2", 1}});
  const auto input = make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr});
  const auto& nodes = input.cluster.nodes;
  CHECK(nodes[0].gpu_owner == std::vector<JobId>{10, 20, 22, 10, 0, 0, 0, 0});
  CHECK(nodes[1].gpu_owner == std::vector<JobId>{12, 21, 23, 10, 10, 11, 0, 0});
  CHECK(nodes[0].freeing == std::vector<int>{1});
  CHECK(nodes[1].freeing == std::vector<int>{0});
}

TEST_CASE("of a job on many nodes each claim is confirmed by what Slurm says of its node") {
  SlurmSnapshot slurm;
  SlurmJob anchor = slurm_job(10, 1000, {}), wide = slurm_job(20, 1000, {}, "espalier:ext:10:ab");
  ElasticJob claims;
  claims.id = 10;
  claims.uid = 1000;
  claims.max_gpus = 64;
  for (int n = 40; n-- > 0;) {  // in another order than Slurm's
    const std::string name = "n" + std::to_string(n);
    claims.anchor.push_back({10, name, {1, 0, 7}});
    claims.extensions.push_back({20, name, {3, 2}});
    claims.extensions.push_back({21, name, {4}});  // Slurm knows no such job
  }
  for (int n = 0; n < 39; ++n) {
    const std::string name = "n" + std::to_string(n);
    anchor.holdings.push_back({10, name, {0, 1}});
    wide.holdings.push_back({20, name, {2}});
  }
  slurm.jobs = {{10, anchor}, {20, wide}};
  const ElasticJob known = confirmed(claims, slurm, 64);
  REQUIRE(known.anchor.size() == 39);
  REQUIRE(known.extensions.size() == 39);
  CHECK(known.anchor.front() == Holding{10, "n38", {1, 0}});
  CHECK(known.anchor.back() == Holding{10, "n0", {1, 0}});
  CHECK(known.extensions.front() == Holding{20, "n38", {2}});
}

TEST_CASE("a job whose growth has failed is planned as held; one whose shrink has failed rests") {
  SlurmSnapshot slurm;
  slurm.time = 1000;
  slurm.cluster.nodes = {node("n1", 4)};
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0}}}));
  std::map<JobId, LiveJob> jobs;
  jobs[10].job = job(10, "n1", {0});
  jobs[10].job.uid = 1000;
  jobs[10].link = std::make_shared<TestLink>(1000);
  const auto planned = [&] { return make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr}).jobs; };
  REQUIRE(planned().size() == 1);
  CHECK_FALSE(planned().front().held);
  jobs[10].not_before = 1320;
  REQUIRE(planned().size() == 1);
  CHECK(planned().front().held);
  jobs[10].failed_to_shrink = true;
  CHECK(planned().empty());
}

TEST_CASE("a job is not planned while Slurm has suspended it, its base or an extension of it") {
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 4), node("n2", 4)};
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0}}}));
  run_job(slurm, slurm_job(20, 1000, {{20, "n1", {1}}}, "espalier:ext:10:ab"));
  run_job(slurm, slurm_job(11, 1000, {}));
  run_job(slurm, slurm_job(12, 1000, {{12, "n2", {0}}}, "espalier:base:11:ab"));
  std::map<JobId, LiveJob> jobs;
  for (const JobId id : {10, 11}) {
    jobs[id].job = job(id, id == 10 ? "n1" : "n2", {0});
    jobs[id].job.uid = 1000;
    jobs[id].link = std::make_shared<TestLink>(1000);
  }
  extend(jobs[10].job, 20, "n1", {1});
  jobs[11].job.anchor = {{12, "n2", {0}}};
  const auto planned = [&] {
    std::vector<JobId> ids;
    for (const ElasticJob& one : make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr}).jobs)
      ids.push_back(one.id);
    return ids;
  };
  CHECK(planned() == std::vector<JobId>{10, 11});
  for (const JobId id : {10, 20, 11, 12}) {
    CAPTURE(id);
    slurm.jobs[id].suspended = true;
    CHECK(planned() == std::vector<JobId>{id == 10 || id == 20 ? JobId{11} : JobId{10}});
    const JobView view = view_of(jobs[id == 10 || id == 20 ? 10 : 11]);
    const auto reasons = growth_obstacles(view, jobs, &slurm, nullptr, {}, 0);
    CHECK(std::find(reasons.begin(), reasons.end(),
                    "Slurm has suspended it, its base or an extension of it; `scontrol resume` lets it go on") !=
          reasons.end());
    slurm.jobs[id].suspended = false;
  }
}

TEST_CASE("a job that gives all extensions back at a user's word gets a plan that its own GPUs have room for") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    for (NodeView& one : slurm.cluster.nodes) one.gpu_type = "t4";
    run_job(slurm, slurm_job(20, 1000, {{20, "n1", {2, 3}}}, "espalier:ext:10:0123abcd"));
  });
  ElasticJob large = job(10, "n1", {0, 1});
  large.model = {"llama", 24, 2048, 16, 256, 1000, 16, 8};  // 19 GB of state: more than a T4 has
  large.accuracy = Accuracy::relaxed;
  large.parallel = {};
  extend(large, 20, "n1", {2, 3});
  large.plan = uniform_plan(4, 1, 24, 16, 16, large.plan->ranks());
  large.phase = JobPhase::running;
  daemon.planner->hold(10, true);  // only what is asked for is done
  const auto link = daemon.connect(1000);
  link->says(wire::Register{large, "n1", 1});
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>() && daemon.planner->site(); }));
  daemon.planner->reclaim(10);
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Plan plan = link->got<wire::Propose>()->decision.plan;
  CHECK(plan.gpu_count() == 2);
  CHECK(plan.stages.size() * static_cast<std::size_t>(plan.stages.front().tp) == 2);  // two replicas would not fit
}

TEST_CASE("while Slurm has a job suspended nothing is taken back from it, and its time does not count") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  ElasticJob trains = daemon.planner->jobs().at(10).job;
  trains.phase = JobPhase::running;
  link->says(wire::Status{trains});
  CHECK(daemon.planner->jobs().at(10).usage.gpus == 2);
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs.at(10).suspended = true; });
  CHECK(daemon.planner->jobs().at(10).usage.gpus == 0);
  CHECK(daemon.store.training(10)->gpus == 0);
  link->says(wire::Status{trains});  // was on its way
  CHECK(daemon.planner->jobs().at(10).usage.gpus == 0);
  const double trained = daemon.planner->jobs().at(10).usage.trained;
  daemon.pass(300);
  CHECK(daemon.planner->jobs().at(10).usage.trained == trained);
  CHECK_THROWS_WITH_AS(daemon.planner->reclaim(10), doctest::Contains("suspended"), Error);
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs.at(10).suspended = false; });
  CHECK(daemon.planner->jobs().at(10).usage.gpus == 2);
  CHECK(daemon.planner->jobs().at(10).usage.trained == trained);
  daemon.pass(50);
  link->says(wire::Status{trains});
  CHECK(daemon.planner->jobs().at(10).usage.trained > trained);
}

TEST_CASE("extensions are told from basic demands by their comment and partition, whoever's they are") {
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 4)};
  run_job(slurm, slurm_job(20, 1000, {{20, "n1", {0}}}, "espalier:ext:10:ab"));
  run_job(slurm, slurm_job(21, 1000, {{21, "n1", {1}}}, "espalier:ext:10:cd"));
  slurm.jobs[21].partition = "main";  // anybody may write a comment
  run_job(slurm, slurm_job(22, 1000, {{22, "n1", {2}}}));
  CHECK(make_input(slurm, {}, Trigger::timer, {64, "elastic", nullptr}).extensions == std::vector<JobId>{20});
}

TEST_CASE("what a job's reconfigurations cost reaches the scheduler") {
  SlurmSnapshot slurm;
  std::map<JobId, LiveJob> jobs;
  jobs[10].job = job(10, "n1", {0});
  CHECK(make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr}).redeploy_seconds.empty());
  jobs[10].pause_seconds = 0.7;
  CHECK(make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr}).redeploy_seconds.at(10) == 0.7);
}

TEST_CASE("what the scheduler thought of a job is among the reasons why it does not grow") {
  LiveJob live;
  live.job = job(10, "n1", {0});
  live.link = std::make_shared<TestLink>(1000);
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 4)};
  const auto reasons = [&](const Weighed* weighed) {
    return growth_obstacles(view_of(live), {}, &slurm, weighed, {}, 0);
  };
  CHECK(reasons(nullptr).empty());
  Weighed weighed{10, 2, 0.4312, 0.75, "its best marginal benefit is below the threshold"};
  CHECK(reasons(&weighed) == std::vector<std::string>{"its best marginal benefit is below the threshold (0.431 with 2 "
                                                      "more GPUs, the threshold is 0.75)"});
  weighed = {10, 0, 0, 0.75, "there are no idle GPUs for it"};
  CHECK(reasons(&weighed) == std::vector<std::string>{"there are no idle GPUs for it"});
}

TEST_CASE("nodes that jobs of the same user found slow are among the reasons, and the objective is not") {
  LiveJob live;
  live.job = job(10, "n1", {0});
  live.link = std::make_shared<TestLink>(1000);
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 4)};
  JobView view = view_of(live);
  view.slow = {"n2", "n3"};
  view.behind_slow_links = {"n5"};
  Weighed weighed{10, 0, 0, 0.75, "there are no idle GPUs for it"};
  weighed.standing.emplace();
  CHECK(
      growth_obstacles(view, {}, &slurm, &weighed, {}, 0) ==
      std::vector<std::string>{"n[2-3]: jobs of its user measured there that GPUs are slower than their like; it gets "
                               "no GPUs there for up to an hour",
                               "n5: jobs of its user measured links there that are slower than their like; it gets no "
                               "GPUs there for up to an hour",
                               "there are no idle GPUs for it"});
}

TEST_CASE("a job whose model is not known, and that sends no profile, is told so") {
  LiveJob live;
  live.job = job(10, "n1", {0});
  live.job.model = data_parallel_shape(48, {1}, "worker");
  live.link = std::make_shared<TestLink>(1000);
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 4)};
  CHECK(growth_obstacles(view_of(live), {}, &slurm, nullptr, {}, 0) ==
        std::vector<std::string>{"its model is not known, and its workers have not sent a profile yet; "
                                 "espalier-worker(7) tells what one is"});
}

TEST_CASE("events of Slurm's plugins") {
  Daemon daemon(true);
  CHECK_NOTHROW(dispatch(wire::parse_event("ESP1 job_submitted uid=1 gpus=2 nodes=1 elastic=0"), *daemon.planner));
  CHECK_NOTHROW(dispatch(wire::parse_event("ESP1 gpus_released job=3 node=n1 gpus=0,1 exit=0"), *daemon.planner));
  CHECK_THROWS_AS(dispatch(wire::parse_event("ESP1 gpus_released job=x node=n1 gpus=0 exit=0"), *daemon.planner),
                  Error);
  CHECK_THROWS_AS(dispatch(wire::parse_event("ESP1 gpus_released job=3"), *daemon.planner), Error);
  CHECK_THROWS_AS(dispatch(wire::parse_event("ESP1 party"), *daemon.planner), Error);
}

TEST_CASE("a node with GPUs of several types lends those of one, as many as Slurm says are idle") {
  const auto view = [](const std::string& gres, const std::string& used) {
    NodeView result;
    REQUIRE(read_gpus(gres, used, result));
    return result;
  };
  NodeView n1 = view("gpu:h100:4,gpu:a100:2", "gpu:h100:1(IDX:2),gpu:a100:1(IDX:4)");
  CHECK(n1.gpu_type == "h100");
  CHECK(n1.gpu_owner.size() == 6);
  CHECK(n1.idle_gpus() == 3);  // of the h100
  NodeView unreadable;
  CHECK_FALSE(read_gpus("gpu:4", "gpu:1(IDX:x)", unreadable));
  CHECK(view("gpu:h100:4,gpu:a100:2", "gpu:h100:4(IDX:0-3),gpu:a100:0(IDX:N/A)").idle_gpus() == 0);
  CHECK(view("gpu:h100:4", "gpu:h100:1(IDX:0)").idle_gpus() == 3);
  // GPUs that jobs use by shares are not idle, though Slurm counts them so.
  const NodeView shared = view("gpu:h100:4,shard:h100:32", "gpu:h100:1(IDX:3),shard:h100:5(4/8,0/8,1/8,0/8)");
  CHECK(shared.gpu_owner == std::vector<JobId>{kUnknownOwner, 0, kUnknownOwner, kUnknownOwner});
  CHECK(view("gpu:h100:4,shard:h100:32", "gpu:h100:0(IDX:N/A),shard:h100:5(IDX:N/A)").idle_gpus() == 0);
  CHECK(view("gpu:h100:4,shard:h100:32", "gpu:h100:0(IDX:N/A),shard:h100:9(4/8,0/8,1/8,0/8)").idle_gpus() == 0);
  CHECK(view("gpu:h100:4,shard:h100:32", "gpu:h100:0(IDX:N/A),shard:h100:0(0/8,0/8,0/8,0/8)").idle_gpus() == 4);
  CHECK(view("gpu:1g.10gb:7", "gpu:1g.10gb:0(IDX:N/A)").idle_gpus() == 0);
  CHECK(view("gpu:a100_1g.5gb:7,gpu:a100:1", "gpu:a100_1g.5gb:0(IDX:N/A),gpu:a100:0(IDX:N/A)").idle_gpus() == 1);
}
