// Movable jobs whose bases wait: the planner has them start on smaller ones.
#include <doctest/doctest.h>

#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

constexpr JobId kBase = 1010;

// Job 10 holds no GPUs; its base waits for four. Job 11 holds two GPUs of n1, job 12 all of n2.
struct Waiting {
  Daemon daemon;
  std::shared_ptr<TestLink> link;
  double waits_for = 60;  // seconds
  std::string comment = "espalier:base:10:ab";
  uid_t owner = 1000;

  explicit Waiting(bool shadow = false) : daemon(shadow) {}
  // The launcher registers, and tells of its base.
  void tells(const std::function<void(SlurmSnapshot&)>& change = {}) {
    daemon.slurm_says([&](SlurmSnapshot& slurm) {
      slurm.cluster.nodes = {node("n1", 4), node("n2", 4)};
      slurm.jobs.clear();
      run_job(slurm, slurm_job(10, 1000, {}));
      run_job(slurm, slurm_job(11, 1001, {{11, "n1", {0, 1}}}));
      run_job(slurm, slurm_job(12, 1001, {{12, "n2", {0, 1, 2, 3}}}));
      SlurmJob base = slurm_job(kBase, owner, {}, comment);
      base.partition = "main";
      base.state = SlurmJobState::pending;
      base.wanted_gpus = 4;
      base.submitted =
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() - waits_for;
      slurm.jobs[kBase] = base;
      WaitingJob waits;
      waits.id = kBase;
      waits.gpus = 4;
      slurm.cluster.waiting = {waits};
      if (change) change(slurm);
    });
    link = daemon.connect(1000);
    link->says(wire::Register{report(), "n1", 1});
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    link->says(wire::BasesHeld{10, {kBase}, {}, kBase});
  }
  static ElasticJob report() {
    ElasticJob one;
    one.id = 10;
    one.min_gpus = one.floor_gpus = 2;
    one.max_gpus = 4;
    one.phase = JobPhase::launching;
    return one;
  }
  std::optional<Decision> proposed() const {
    const auto message = link->got<wire::Propose>();
    return message ? std::optional(message->decision) : std::nullopt;
  }
  Decision proposal() {
    REQUIRE(daemon.until([&] { return proposed().has_value(); }));
    return *proposed();
  }
};

}  // namespace

TEST_CASE("a job whose base waits is proposed a smaller one on idle GPUs") {
  Waiting one;
  one.tells();
  const Decision decision = one.proposal();
  CHECK(decision.kind == DecisionKind::start);
  CHECK(decision.plan.stages.empty());
  REQUIRE(decision.acquire.size() == 1);
  CHECK(decision.acquire.front().node == "n1");
  CHECK(decision.acquire.front().gpus == 2);
  CHECK(decision.acquire.front().lease_minutes == 0);
  CHECK(decision.reason == "starts on 2 idle GPUs of n1 while base 1010 of 4 waits");
  // One at a time.
  one.link->sent.clear();
  one.daemon.pass(500);
  CHECK(!one.proposed());
  // Once it runs, the outcome is in the store.
  one.link->says(outcome_of(decision, "committed", 0));
  one.daemon.pass(200);
  const auto record = one.daemon.store.decision(decision.id);
  REQUIRE(record);
  CHECK(record->decision.outcome == "committed");
}

TEST_CASE("a smaller base that did not start is not tried again at once") {
  Waiting one;
  one.tells();
  const Decision decision = one.proposal();
  one.link->says(outcome_of(decision, "aborted: it was not granted within 40 s", 0));
  one.link->sent.clear();
  one.daemon.pass(3000);
  CHECK(!one.proposed());
}

TEST_CASE("no smaller base is proposed") {
  Waiting one;
  std::function<void(SlurmSnapshot&)> change;
  SUBCASE("while Slurm has its try at the base") { one.waits_for = 0; }
  SUBCASE("for a base that names another job") { one.comment = "espalier:base:11:ab"; }
  SUBCASE("for a base of another user") { one.owner = 1001; }
  SUBCASE("while another job waits that could use the GPUs") {
    change = [](SlurmSnapshot& slurm) {
      WaitingJob other;
      other.id = 99;
      other.gpus = 2;
      slurm.cluster.waiting.push_back(other);
    };
  }
  SUBCASE("for a base that waits for a limit") {
    change = [](SlurmSnapshot& slurm) { slurm.cluster.waiting.clear(); };
  }
  SUBCASE("for a base that runs") {
    change = [](SlurmSnapshot& slurm) { slurm.jobs[kBase].state = SlurmJobState::running; };
  }
  one.tells(change);
  one.daemon.pass(one.waits_for > 0 ? 1000 : 400);
  CHECK(!one.proposed());
}

TEST_CASE("no smaller base is proposed while extensions give their GPUs back for the base") {
  Waiting one;
  const auto other = one.daemon.connect(1001);
  auto grown = job(11, "n1", {0, 1});
  extend(grown, 20, "n2", {0, 1, 2, 3});
  const auto lent = [](SlurmSnapshot& slurm) {
    slurm.jobs.erase(12);
    hold(slurm.cluster, {0, "n2", {0, 1, 2, 3}});
    run_job(slurm, slurm_job(20, 1001, {{20, "n2", {0, 1, 2, 3}}}, "espalier:ext:11:abc"));
  };
  one.daemon.slurm_says([&](SlurmSnapshot& slurm) {
    slurm.jobs.clear();
    run_job(slurm, slurm_job(11, 1001, {{11, "n1", {0, 1}}}));
  });
  other->says(wire::Register{grown, "n1", 1});
  REQUIRE(one.daemon.until([&] { return other->got<wire::Registered>().has_value(); }));
  one.tells(lent);
  REQUIRE(one.daemon.until([&] { return other->got<wire::Propose>().has_value(); }));
  CHECK(other->got<wire::Propose>()->decision.release == std::vector<JobId>{20});
  one.daemon.pass(1000);
  CHECK(!one.proposed());
}

TEST_CASE("a job that is held gets no smaller base until it is released") {
  Waiting one;
  one.daemon.store.hold(10, true);
  one.tells();
  one.daemon.pass(500);
  CHECK(!one.proposed());
  one.daemon.planner->hold(10, false);
  one.proposal();
}

TEST_CASE("in shadow mode a smaller base is recorded and not proposed") {
  Waiting one(true);
  one.tells();
  one.daemon.pass(1000);
  CHECK(!one.proposed());
}

TEST_CASE("a user has a base that waits wait for other nodes: its launcher is told") {
  Waiting one;
  const auto two_types = [](SlurmSnapshot& slurm) {
    slurm.cluster.nodes[1].gpu_type = "a100";
    slurm.partitions["main"] = {"n1", "n2"};
  };
  SUBCASE("by type") {
    one.tells(two_types);
    CHECK(one.daemon.planner->migrate(10, {"a100", {}}) == 0);
    REQUIRE(one.daemon.until([&] { return one.link->got<wire::SteerBase>().has_value(); }));
    const auto told = *one.link->got<wire::SteerBase>();
    CHECK(told.job == 10);
    CHECK(told.base == kBase);
    CHECK(told.nodes == "n2");
  }
  SUBCASE("anywhere again") {
    one.tells(two_types);
    CHECK(one.daemon.planner->migrate(10, {}) == 0);
    REQUIRE(one.daemon.until([&] { return one.link->got<wire::SteerBase>().has_value(); }));
    CHECK(one.link->got<wire::SteerBase>()->nodes.empty());
  }
}

TEST_CASE("a base that waits is left alone where it cannot wait, and the user is told why") {
  Waiting one;
  MoveWish wish{"a100", {}};
  std::string why = "job 10: cannot wait there: its base needs 4 GPUs, and there are 0 of type a100 in its partition";
  SUBCASE("no such GPUs") { one.tells(); }
  SUBCASE("the base is another user's") {
    one.owner = 1001;
    one.tells();
    why = "job 10: is being reconfigured or does not train yet; try again when its phase is running";
  }
  SUBCASE("the base is another job's") {
    one.comment = "espalier:base:11:ab";
    one.tells();
    why = "job 10: is being reconfigured or does not train yet; try again when its phase is running";
  }
  SUBCASE("it is held") {
    one.tells();
    one.daemon.planner->hold(10, true);
    why = "job 10: is held; `espalier release 10` lets it move";
  }
  REQUIRE(one.daemon.until([&] { return one.daemon.planner->jobs().at(10).movable; }));
  CHECK_THROWS_WITH_AS(one.daemon.planner->migrate(10, wish), why.c_str(), Error);
  CHECK_FALSE(one.link->got<wire::SteerBase>().has_value());
}
