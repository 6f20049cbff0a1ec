// The clock is set back, e.g. when NTP finds that it was an hour fast: nothing waits for that hour to pass again.
#include <doctest/doctest.h>

#include "planner/daemon/limit_waits.hpp"
#include "planner/daemon/profile_jobs.hpp"
#include "planner/daemon/releases.hpp"
#include "planner/daemon/room.hpp"
#include "planner/daemon/strays.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("the grace of a stray begins anew when the clock is set back") {
  Strays strays("elastic");
  SlurmSnapshot slurm;
  slurm.jobs[20] = slurm_job(20, 1000, {}, "espalier:ext:10:ab");
  const auto named = [&](double time) {
    slurm.time = time;
    return strays.look(slurm, {}).size();
  };
  CHECK(named(5000) == 0);
  CHECK(named(1000) == 0);
  CHECK(named(1009) == 0);
  CHECK(named(1011) == 1);
}

TEST_CASE("a stray with a short grace is named again ten seconds later, and no sooner") {
  StraySince since;
  const auto named = [&](double time) {
    const bool over = since.is_over(20, time, 1);
    since.end_look(time);
    return over;
  };
  CHECK_FALSE(named(5000));
  CHECK(named(5002));
  CHECK_FALSE(named(5004));
  CHECK_FALSE(named(5011));
  CHECK(named(5013));
  CHECK_FALSE(named(1000));
  CHECK(named(1011));
}

TEST_CASE(
    "what a job has done is not later than now after the clock is set back, and what it waits for comes no later") {
  LiveJob live;
  live.saved = live.scaled_at = 4990;
  live.last_change = 4980;
  live.moves = {100, 4970};
  live.tried_at = {4960};
  live.not_before = 5030;
  live.grow_not_before = 5060;
  live.avoided = {{"n1", 8000}};
  live.open.emplace();
  live.open->decision.time = 4995;
  live.open->moments = {{"event", 4994}, {"decided", 4995}};
  clock_set_back(live, 5000, 1400);
  CHECK(live.saved == 1400);
  CHECK(live.scaled_at == 1400);
  CHECK(live.last_change == 1400);
  CHECK(live.moves == std::vector<double>{100, 1400});
  CHECK(live.tried_at == std::vector<double>{1400});
  CHECK(live.open->decision.time == 1400);
  CHECK(live.open->moments == std::map<std::string, double>{{"event", 1400}, {"decided", 1400}});
  CHECK(live.not_before == 1430);
  CHECK(live.grow_not_before == 1460);
  CHECK(live.avoided.at("n1") == 4400);
  CHECK(live.smaller_not_before == 0);
  CHECK(live.no_smaller_before == 0);
}

TEST_CASE("a decision that was open when the clock was set back is closed in the time that any has") {
  Daemon daemon;
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Decision decision = link->got<wire::Propose>()->decision;
  daemon.slurm_state->change([&](SlurmSnapshot&) { daemon.slurm_state->ahead = -3600; });
  const auto& live = daemon.planner->jobs().at(10);
  REQUIRE(daemon.until([&] { return live.open && live.open->decision.time < decision.time - 3000; }));
  daemon.slurm_says_later(daemon.planner->settings().outcome_seconds - 10, [](SlurmSnapshot&) {});
  CHECK(daemon.store.decision(decision.id)->decision.outcome.empty());
  daemon.slurm_says_later(20, [](SlurmSnapshot&) {});
  CHECK(daemon.store.decision(decision.id)->decision.outcome.starts_with("aborted: no outcome within"));
}

TEST_CASE("a release that was reported before the clock was set back is not waited for") {
  Releases releases;
  SlurmSnapshot slurm;
  slurm.cluster.nodes = {node("n1", 2)};
  run_job(slurm, slurm_job(5, 1, {{5, "n1", {0}}}));
  releases.reported(5, "n1", 5000);
  slurm.time = 4990;  // Slurm was asked before, and answers slowly
  releases.look(slurm);
  CHECK(releases.waiting());
  slurm.time = 1000;
  releases.look(slurm);
  CHECK_FALSE(releases.waiting());
}

TEST_CASE("what a limit needs is asked back again when Slurm had its time after the clock was set back") {
  SlurmSnapshot slurm;
  slurm.time = 5000;
  slurm.cluster.nodes = {node("n1", 4), node("n2", 4)};
  for (const JobId id : {20, 21}) {
    run_job(slurm, slurm_job(id, 1000, {{id, id == 20 ? "n1" : "n2", {0, 1}}}, "espalier:ext:10:ab"));
    slurm.jobs[id].qos = "normal";
  }
  SlurmJob waiting = slurm_job(30, 1000, {});
  waiting.state = SlurmJobState::pending;
  waiting.limit = LimitOf::qos;
  waiting.qos = waiting.limit_qos = "normal";
  waiting.wanted_gpus = 2;
  slurm.jobs[30] = waiting;
  slurm.limited = {30};
  LimitWaits waits;
  REQUIRE(waits.look(slurm, "elastic").size() == 1);
  slurm.jobs.erase(20);  // given back
  slurm.time = 1000;
  CHECK(waits.look(slurm, "elastic").empty());
  slurm.time = 1100;
  CHECK(waits.look(slurm, "elastic").size() == 1);
}

TEST_CASE("a grant from before the clock was set back counts as no profile job") {
  RecentGrants grants;
  SlurmSnapshot slurm;
  grants.add(1000, 5000, "");
  CHECK(grants.with_grants({}, slurm, 1000, 5001).all == 1);
  CHECK(grants.with_grants({}, slurm, 1000, 1000).all == 0);
}

TEST_CASE("moves in the store from before the clock was set back were made now at the latest") {
  Folder folder;
  Store store(folder.file("test.db"));
  DecisionRecord record;
  record.decision.job = 10;
  record.decision.kind = DecisionKind::migrate;
  record.decision.acquire = {{"n2", 2, 1, 1000, 0}};
  record.decision.time = 5000;
  record.decision.outcome = "committed";
  store.add(record);
  CHECK(stored_moves(store, 10, 1000) == std::vector<double>{1000});
}
