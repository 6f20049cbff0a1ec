// Limits on one user's connections, messages and memory in the daemon.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "planner/daemon/allowance.hpp"
#include "planner/daemon/answers.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("an allowance is used up at once and comes back with time") {
  Allowance allowance;
  constexpr Allowance::Rate rate{3, 0.5};
  for (int i = 0; i < 3; ++i) CHECK(allowance.take(1000, rate));
  CHECK_FALSE(allowance.take(1000, rate));
  CHECK(allowance.wait(rate) == doctest::Approx(2));
  CHECK_FALSE(allowance.take(1001, rate));
  CHECK(allowance.take(1002, rate));
  CHECK_FALSE(allowance.take(1002.5, rate));
  CHECK_FALSE(allowance.take(500, rate));  // the clock was set back
  CHECK(allowance.take(502, rate));
  CHECK_FALSE(allowance.unused(505, rate));
  CHECK(allowance.unused(600, rate));
  for (int i = 0; i < 3; ++i) CHECK(allowance.take(9000, rate));  // no more have gathered
  CHECK_FALSE(allowance.take(9000, rate));
}

TEST_CASE("a user's messages are counted together, on whatever connections they come") {
  Daemon daemon(true);
  int answered = 0;
  for (int i = 0; i < 20; ++i) {
    const auto link = daemon.connect(1000);
    for (int k = 0; k < 100 && !link->closed; ++k) link->says(wire::Query{"ping", Json::object()});
    answered += static_cast<int>(std::count_if(link->sent.begin(), link->sent.end(),
                                               [](const wire::Frame& frame) { return frame.type == "reply"; }));
  }
  CHECK(answered >= 500);
  CHECK(answered < 1000);
  const auto other = daemon.connect(1001);
  other->says(wire::Query{"ping", Json::object()});
  CHECK(other->got<wire::Reply>());
}

TEST_CASE("an ordinary user has 64 connections and one for each of the user's jobs, an administrator any number") {
  Daemon daemon(true);
  const auto launcher = daemon.launcher();
  REQUIRE(daemon.until([&] { return launcher->got<wire::Registered>().has_value(); }));
  std::vector<std::shared_ptr<TestLink>> links;
  for (int i = 0; i < 64; ++i) links.push_back(daemon.connect(1000));
  CHECK(std::none_of(links.begin(), links.end(), [](const auto& link) { return link->closed; }));
  CHECK(daemon.connect(1000)->closed);
  links.back()->close();
  CHECK(daemon.connect(1000)->closed);  // it may still send its last output
  links.pop_back();
  CHECK_FALSE(daemon.connect(1000)->closed);
  std::vector<std::shared_ptr<TestLink>> others;
  for (int i = 0; i < 65; ++i) others.push_back(daemon.connect(1001));
  CHECK(others[63]->closed == false);
  CHECK(others[64]->closed);
  for (int i = 0; i < 200; ++i) others.push_back(daemon.connect(0));
  CHECK_FALSE(others.back()->closed);
}

TEST_CASE("all launchers of a user come back at once: each has a seat as soon as Slurm says that its job runs") {
  constexpr JobId kFirst = 100, kJobs = 400;
  Daemon daemon(true);
  daemon.slurm_says([&](SlurmSnapshot& slurm) {
    slurm.cluster.nodes.clear();
    for (JobId i = 0; i < kJobs / 4; ++i) slurm.cluster.nodes.push_back(node("m" + std::to_string(1000 + i), 4));
    slurm.jobs.clear();
    for (JobId i = 0; i < kJobs; ++i) {
      const std::string name = "m" + std::to_string(1000 + i / 4);
      run_job(slurm, slurm_job(kFirst + i, 1000, {{kFirst + i, name, {static_cast<int>(i % 4)}}}));
    }
  });
  CHECK(daemon.planner->jobs_of(1000) == kJobs);
  std::vector<std::shared_ptr<TestLink>> links;
  for (JobId i = 0; i < kJobs; ++i) {
    links.push_back(daemon.connect(1000));
    ElasticJob one = job(10, "m" + std::to_string(1000 + i / 4), {static_cast<int>(i % 4)});
    one.id = kFirst + i;
    for (Holding& held : one.anchor) held.job = one.id;
    links.back()->says(wire::Register{one, "m", static_cast<int>(i)});
  }
  const auto registered = [](const auto& link) { return link->template got<wire::Registered>().has_value(); };
  for (int i = 0; i < 20 && !std::all_of(links.begin(), links.end(), registered); ++i)
    daemon.until([&] { return std::all_of(links.begin(), links.end(), registered); });
  CHECK(std::count_if(links.begin(), links.end(), registered) == kJobs);
  // Each connection is of its own job, and no other's messages are taken for it.
  CHECK(daemon.planner->job_of(*links[7]) == kFirst + 7);
  links[7]->says(wire::Bye{kFirst + 8, 0});
  CHECK(links[7]->closed);
  CHECK_FALSE(daemon.planner->job_of(*links[7]));
  links[8]->says(wire::Bye{kFirst + 8, 0});
  CHECK_FALSE(daemon.planner->job_of(*links[8]));
}

TEST_CASE("large messages are taken from administrators and from launchers that have been admitted") {
  Daemon daemon(true);
  const auto launcher = daemon.launcher();
  CHECK(launcher->most_frame == wire::kMaxNewcomer);
  REQUIRE(daemon.until([&] { return launcher->got<wire::Registered>().has_value(); }));
  CHECK(launcher->most_frame > wire::kMaxNewcomer);
  CHECK(launcher->most_frame < wire::kMaxFrame);  // it has eight GPUs at most
  CHECK(daemon.connect(0)->most_frame == wire::kMaxFrame);
}

TEST_CASE("what is known of a large cluster and its queue comes in pages") {
  Daemon daemon(true);
  std::vector<std::string> names;
  for (int i = 1000; i < 3000; ++i) names.push_back("node" + std::to_string(i));
  std::vector<std::string> half(names.begin(), names.begin() + 1000);
  daemon.slurm_says([&](SlurmSnapshot& slurm) {
    slurm.cluster.nodes.clear();
    for (const auto& name : names) slurm.cluster.nodes.push_back(node(name, 8, "leaf-of-" + name));
    for (JobId id = 1; id <= 1000; ++id)
      slurm.cluster.waiting.push_back({id, 8, 1, id == 1 ? std::vector<std::string>{} : half, {}, 1});
  });
  const wire::Config config;
  Json whole{{"nodes", Json::array()}, {"waiting", Json::array()}}, arguments = Json::object();
  for (int pages = 1;; ++pages) {
    const Json reply = test::ask(daemon, config, {"nodes", arguments}, 1000);
    CHECK(wire::encode(wire::to_frame(wire::Reply{reply})).size() < 300000);
    for (const char* list : {"nodes", "waiting"})
      for (const Json& one : reply.at(list)) whole[list].push_back(one);
    if (!reply.contains("next")) break;
    arguments["page"] = reply["next"];
    REQUIRE(pages < 10);
  }
  CHECK(whole.at("nodes").size() == 2000);
  REQUIRE(whole.at("waiting").size() == 1000);
  CHECK(whole.at("waiting").at(0).at("only_nodes") == "");
  CHECK(whole.at("waiting").at(0).at("tasks") == 1);
  CHECK(whole.at("waiting").at(999).at("only_nodes") == "node[1000-1999]");
}

TEST_CASE("a user's launchers do not keep the planner asking Slurm; what Slurm's own events tell is asked at once") {
  Daemon daemon(true);
  auto settings = daemon.planner->settings();
  settings.poll_seconds = 600;
  daemon.planner->configure(settings);
  daemon.pass(50);
  const int before = daemon.asked();
  std::vector<std::shared_ptr<TestLink>> links;
  const auto flood = daemon.loop.every(std::chrono::milliseconds(5), [&] { links.push_back(daemon.launcher(1001)); });
  daemon.pass(700);
  CHECK(daemon.asked() > before);
  CHECK(daemon.asked() - before <= 6);
  const int then = daemon.asked();
  daemon.planner->gpus_released(99, "n1");
  CHECK(daemon.until([&] { return daemon.asked() > then; }));
  const auto other = daemon.launcher(1000);
  CHECK(daemon.until([&] { return other->got<wire::Registered>().has_value(); }));
  daemon.pass(1100);  // delayed launchers are answered, too
  CHECK(std::count_if(links.begin(), links.end(), [](const auto& link) { return link->closed; }) > 60);
}

TEST_CASE("what a launcher says of its own acts is bounded in number and in size") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  const std::size_t before = daemon.store.decisions(10, 1000).size();
  Decision own;
  own.job = 10;
  own.kind = DecisionKind::shrink;
  own.plan = *job(10, "n1", {0}).plan;
  auto outcome = outcome_of(own, "committed");
  SUBCASE("a plan that is none") { outcome.plan.stages[0].replicas.clear(); }
  SUBCASE("a plan nobody could compute with") { outcome.plan.global_batch = outcome.plan.micro_batches = 2000000000; }
  SUBCASE("too many phases") {
    for (int i = 0; i < 65; ++i) outcome.phases_ms["phase" + std::to_string(i)] = i;
  }
  SUBCASE("a phase with a name as long as a book") { outcome.phases_ms[std::string(65, 'x')] = 1; }
  SUBCASE("a phase with a name that forges a line") { outcome.phases_ms["x\ny"] = 1; }
  SUBCASE("a step that nothing can be added to") { outcome.step = std::numeric_limits<std::int64_t>::max(); }
  SUBCASE("a generation before the first") { outcome.generation = -1; }
  SUBCASE("a pause that is no number") { outcome.pause_ms = std::numeric_limits<double>::quiet_NaN(); }
  // This case is last, because its early return would hide later cases.
  SUBCASE("too many") {
    for (int i = 0; i < 100; ++i) link->says(outcome);
    CHECK_FALSE(link->closed);
    const std::size_t written = daemon.store.decisions(10, 1000).size() - before;
    CHECK(written >= 30);
    CHECK(written <= 32);
    return;
  }
  link->says(outcome);
  CHECK(link->closed);
  CHECK(link->got<wire::Refused>()->reason.starts_with("job 10: reported with "));
  CHECK(daemon.store.decisions(10, 1000).size() == before);
}

TEST_CASE("thousands of jobs with comments that make them strays do not keep the planner from asking Slurm") {
  constexpr JobId kJobs = 1000;
  Daemon daemon;
  daemon.slurm_state->kill_takes = std::chrono::milliseconds(20);
  daemon.slurm_says([&](SlurmSnapshot& slurm) {
    for (JobId i = 0; i < kJobs; ++i) {
      SlurmJob one = slurm_job(100 + i, 1001, {}, "espalier:base:1:x");
      one.state = SlurmJobState::pending;
      slurm.jobs[one.id] = one;
    }
    // Two other users lost a base and an extension.
    slurm.jobs[5000] = slurm_job(5000, 1002, {}, "espalier:base:2:x");
    slurm.jobs[5001] = slurm_job(5001, 1003, {}, "espalier:ext:3:x");
  });
  double longest = 0, last = daemon.planner->last_snapshot()->time;
  const double begin = last;
  const auto look = daemon.loop.every(std::chrono::milliseconds(2), [&] {
    const double now = daemon.planner->last_snapshot()->time;
    longest = std::max(longest, now - last);
    last = now;
  });
  while (last - begin < 13) daemon.pass(500);  // the grace is ten seconds
  CHECK(longest < 2);
  const std::lock_guard lock(daemon.slurm_state->mutex);
  const std::vector<JobId>& killed = daemon.slurm_state->killed;
  REQUIRE(killed.size() > 32);
  const auto first = killed.begin() + 16;
  CHECK(std::find(killed.begin(), first, 5000) != first);
  CHECK(std::find(killed.begin(), first, 5001) != first);
  CHECK(std::find(first, killed.end(), 5000) == killed.end());  // its end is under way
  MESSAGE(killed.size(), " strays were ended in 3 s; the longest time between two snapshots was ", longest, " s");
  const auto& before = daemon.slurm_state->killed_before;
  for (std::size_t i = 1; i < before.size(); ++i) CHECK(before[i] - before[i - 1] <= 16);
}
