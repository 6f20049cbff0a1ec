// Bases of movable jobs that the planner moves by itself to GPUs on which their jobs train faster.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "planner/daemon/clock.hpp"
#include "planner/daemon/room.hpp"
#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

constexpr JobId kBase = 1010, kOtherBase = 1020;

// Job 10 holds no GPUs; its base has two A100 of n1. The H100 of n2 are idle.
struct Movable {
  Daemon daemon;
  std::shared_ptr<TestLink> link;

  Movable() {
    daemon.slurm_says([](SlurmSnapshot& slurm) {
      slurm.cluster.nodes = {node("n1", 4, "leaf1", "a100"), node("n2", 4, "leaf1", "h100")};
      slurm.jobs.clear();
      run_job(slurm, slurm_job(10, 1000, {}));
      SlurmJob base = slurm_job(kBase, 1000, {{kBase, "n1", {0, 1}}}, "espalier:base:10:ab");
      base.partition = "main";
      run_job(slurm, base);
    });
  }
  void set_gain(double gain) {
    PlannerSettings settings = daemon.planner->settings();
    settings.migrate_gain = gain;
    daemon.planner->configure(settings);
  }
  // The launcher registers as that of a bit-identical training on GPUs.
  void trains_on_gpus() {
    ElasticJob one = report({});
    one.model.setting = TrainingSetting{"espalier-train-cuda 0.1.0", "", "", "", false, false};
    link = daemon.connect(1000);
    link->says(wire::Register{one, "n1", 1});
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    link->says(wire::BasesHeld{10, {kBase}, {}});
  }
  static ElasticJob report(const std::optional<Profile>& profile, JobId id = 10, JobId base = kBase, int gpu = 0) {
    ElasticJob one = job(id, "n1", {gpu, gpu + 1}, 2);
    one.anchor.front().job = base;
    one.model = model_cases::kShape;
    one.plan = uniform_plan(2, 1, 12, 16, 4, {{"n1", gpu}, {"n1", gpu + 1}});
    one.total_steps = 100000;
    one.profile = profile;
    return one;
  }
  // The launcher registers, tells of its base, and of a calm profile on the A100.
  void trains(const std::vector<std::string>& types = {}) {
    link = daemon.connect(1000);
    link->says(wire::Register{report({}), "n1", 1});
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    link->says(wire::BasesHeld{10, {kBase}, types});
    link->says(wire::Status{report(calm_profile(*report({}).plan))});
  }
  // Another movable job, 20, has its base on the other two A100 of n1, and trains as long as that one.
  std::shared_ptr<TestLink> another_trains() {
    daemon.slurm_says([](SlurmSnapshot& slurm) {
      run_job(slurm, slurm_job(20, 1000, {}));
      SlurmJob base = slurm_job(kOtherBase, 1000, {{kOtherBase, "n1", {2, 3}}}, "espalier:base:20:ab");
      base.partition = "main";
      run_job(slurm, base);
    });
    auto other = daemon.connect(1000);
    const ElasticJob one = report({}, 20, kOtherBase, 2);
    other->says(wire::Register{one, "n1", 2});
    REQUIRE(daemon.until([&] { return other->got<wire::Registered>().has_value(); }));
    other->says(wire::BasesHeld{20, {kOtherBase}, {}});
    other->says(wire::Status{report(calm_profile(*one.plan), 20, kOtherBase, 2)});
    return other;
  }
  Profile calm_profile(const Plan& plan) const {
    const Site site = site_from_view(daemon.planner->last_snapshot()->cluster, {}).site;
    JobCoefficients known = model_cases::known_job({});
    known.gpu.resize(site.hardware.types.size(), known.gpu.front());
    Profile profile = model_cases::profile_of({site.hardware, site.topology}, known, plan);
    profile.step = 10;
    profile.steps = 8;
    for (ReplicaProfile& one : profile.replicas) one.spread = 0.001;
    return profile;
  }
  std::optional<Decision> proposed() const {
    const auto message = link->got<wire::Propose>();
    return message ? std::optional(message->decision) : std::nullopt;
  }
};

}  // namespace

TEST_CASE("the planner moves a base to idle GPUs of a faster type, and lets the job rest then") {
  Movable movable;
  movable.trains();
  REQUIRE(movable.daemon.until([&] { return movable.proposed().has_value(); }));
  const Decision decision = *movable.proposed();
  CHECK(decision.kind == DecisionKind::migrate);
  REQUIRE(decision.acquire.size() == 1);
  CHECK(decision.acquire.front().node == "n2");
  CHECK(decision.acquire.front().gpus == 2);
  CHECK(decision.acquire.front().lease_minutes == 0);
  CHECK(decision.reason.find("h100 GPUs on n2 train it ") == 0);
  CHECK(decision.predicted_step_seconds > 0);
  CHECK(decision.predicted_step_seconds < Movable::report({}).step_seconds);
  // Given up by the launcher, it is not tried again for ten minutes.
  movable.link->says(outcome_of(decision, "aborted: the second base did not start", 0));
  movable.link->sent.clear();
  movable.daemon.pass(800);
  CHECK(!movable.proposed());
}

TEST_CASE("after a move that was dropped its job rests, and the base of another job moves") {
  std::atomic<bool> inside{false}, go_on{false};  // outlive the planner
  Movable movable;
  const PlannerSettings plain = movable.daemon.planner->settings();
  movable.set_gain(0);
  movable.trains();
  const auto other = movable.another_trains();
  movable.daemon.pass(300);
  PlannerSettings stops = plain;
  stops.scheduler.discount = [&](const ElasticJob&) {
    inside = true;
    while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 1.0;
  };
  movable.daemon.planner->configure(stops);
  REQUIRE(movable.daemon.until([&] { return inside.load(); }));
  movable.daemon.planner->configure(plain);  // what is decided now is out of date
  go_on = true;
  JobId dropped = 0;
  REQUIRE(movable.daemon.until([&] {
    for (const JobId id : {10, 20})
      for (const auto& record : movable.daemon.store.decisions(id, 10))
        if (record.decision.outcome == "dropped: the settings have been read again") dropped = id;
    return dropped != 0;
  }));
  const auto& moves = dropped == 10 ? *other : *movable.link;
  const auto& rests = dropped == 10 ? *movable.link : *other;
  REQUIRE(movable.daemon.until([&] { return moves.got<wire::Propose>().has_value(); }));
  CHECK(moves_base(moves.got<wire::Propose>()->decision));
  movable.daemon.pass(300);
  CHECK_FALSE(rests.got<wire::Propose>().has_value());
}

TEST_CASE("policy arena switches the type of a base itself, and keeps to what the site and the job want of moves") {
  Movable movable;
  std::vector<std::string> types;
  double gain = 1.1;
  SUBCASE("it moves") {}
  SUBCASE("planner.migrate_gain = 0") { gain = 0; }
  SUBCASE("types= of the job") { types = {"a100"}; }
  PlannerSettings settings = movable.daemon.planner->settings();
  settings.scheduler.arena = ArenaPolicyOptions{10, gain};
  settings.migrate_gain = gain;
  movable.daemon.planner->configure(settings);
  movable.trains(types);
  if (gain == 0 || !types.empty()) {
    movable.daemon.pass(500);
    const auto proposed = movable.proposed();
    CHECK((!proposed || !moves_base(*proposed)));
    return;
  }
  REQUIRE(movable.daemon.until([&] { return movable.proposed().has_value(); }));
  const Decision decision = *movable.proposed();
  CHECK(moves_base(decision));
  REQUIRE(decision.acquire.size() == 1);
  CHECK(decision.acquire.front().node == "n2");
  CHECK(decision.reason.find("h100 GPUs on n2 train it ") == 0);
}

TEST_CASE("the planner moves no base to faster GPUs where the site or the job does not want it") {
  Movable movable;
  std::vector<std::string> types;
  SUBCASE("planner.migrate_gain = 0") { movable.set_gain(0); }
  SUBCASE("planner.migrate_gain is above what the move brings") { movable.set_gain(50); }
  SUBCASE("types= of the job") { types = {"a100"}; }
  SUBCASE("the job is held") { movable.daemon.planner->hold(10, true); }
  movable.trains(types);
  movable.daemon.pass(500);
  CHECK(!movable.proposed());
}

TEST_CASE("a user cannot move a bit-identical training to GPUs of another type") {
  Movable movable;
  movable.trains_on_gpus();
  try {
    movable.daemon.planner->migrate(10, {"h100", {}});
    FAIL("it was moved");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "job 10: cannot move: accuracy=bitwise keeps it on GPUs of type a100, as those of type h100 may round "
          "differently; a job with accuracy=relaxed may change its type");
  }
  CHECK(!movable.proposed());
}

TEST_CASE("a base that may not move is left where it is, and the user is told why") {
  Movable movable;
  movable.set_gain(0);
  std::string why;
  const auto refused = [&](const MoveWish& wish) {
    try {
      movable.daemon.planner->migrate(10, wish);
      return std::string("it was moved");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  MoveWish wish{"h100", {}};
  SUBCASE("no such job") { why = "job 10: has no connected launcher"; }
  SUBCASE("it holds two bases") {
    movable.trains();
    movable.link->says(wire::BasesHeld{10, {kBase, kBase + 1}, {}});
    why = "job 10: waits for a base of more GPUs, and moves there when Slurm grants it";
  }
  SUBCASE("it is held") {
    movable.trains();
    movable.daemon.planner->hold(10, true);
    why = "job 10: is held; `espalier release 10` lets it move";
  }
  SUBCASE("it moves already") {
    movable.trains();
    CHECK(movable.daemon.planner->migrate(10, wish) > 0);
    why = "job 10: is being reconfigured or does not train yet; try again when its phase is running";
  }
  SUBCASE("its types leave the GPUs out") {
    movable.trains({"a100"});
    why = "job 10: cannot move: type h100: types= of the job leaves it out";
  }
  SUBCASE("the planner acts on nothing") {
    movable.trains();
    PlannerSettings settings = movable.daemon.planner->settings();
    settings.shadow = true;
    movable.daemon.planner->configure(settings);
    why = "job 10: the planner runs with --shadow and acts on nothing";
  }
  SUBCASE("it was moved six times within the hour") {
    movable.trains();
    for (int i = 0; i < 6; ++i) {
      const auto id = movable.daemon.planner->migrate(10, wish);
      CHECK(id > 0);
      movable.link->says(outcome_of(*movable.proposed(), "aborted: the second base did not start", 0));
    }
    why = "job 10: has been moved 6 times within an hour, which is the limit";
  }
  SUBCASE("the nodes are not in its base's partition") {
    movable.trains();
    movable.daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.partitions["main"] = {"n1"}; });
    wish = {"", {"n2"}};
    why = "job 10: cannot move: node n2: is not in the partition and the reservation of its base";
  }
  CHECK(refused(wish) == why);
}

TEST_CASE("an espalierd that was started again counts the moves of the hour before, and holds others back meanwhile") {
  Movable movable;
  movable.set_gain(0);
  movable.trains();
  for (int i = 0; i < 6; ++i) {
    CHECK(movable.daemon.planner->migrate(10, {"h100", {}}) > 0);
    movable.link->says(outcome_of(*movable.proposed(), "aborted: the second base did not start", 0));
  }
  movable.daemon.start();
  movable.set_gain(0);
  movable.trains();
  REQUIRE(movable.daemon.until([&] { return movable.daemon.planner->last_snapshot() != nullptr; }));
  CHECK_THROWS_WITH_AS(movable.daemon.planner->migrate(10, {"h100", {}}),
                       "job 10: has been moved 6 times within an hour, which is the limit", Error);
  movable.link->says(wire::BasesHeld{10, {kBase, kBase + 1}, {}});
  CHECK_THROWS_WITH_AS(movable.daemon.planner->migrate(10, {"h100", {}}),
                       "job 10: still holds the base that it left; try again in a minute", Error);
  auto jobs = movable.daemon.planner->jobs();
  CHECK_FALSE(movable_now(jobs, movable.daemon.planner->last_snapshot(), clock_seconds(), 0).has_value());
  CHECK(stored_moves(movable.daemon.store, 10, clock_seconds()).size() == 6);
  CHECK(stored_moves(movable.daemon.store, 10, clock_seconds() + 3600).empty());
  CHECK(stored_moves(movable.daemon.store, 11, clock_seconds()).empty());
}

TEST_CASE("a job that is not movable cannot be moved") {
  Daemon daemon;
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  CHECK_THROWS_WITH_AS(daemon.planner->migrate(10, {}),
                       "job 10: is not movable: its GPUs are those of the submitted job; submit it with "
                       "--elastic=MIN:MAX,movable",
                       Error);
}

TEST_CASE("a second base is withdrawn when a job begins to wait that could use its GPUs") {
  Movable movable;
  movable.set_gain(0);
  movable.trains();
  const std::int64_t id = movable.daemon.planner->migrate(10, {"h100", {}});
  REQUIRE(id > 0);
  int gpus = 4;
  JobId wanted = 30;
  std::string expected = "job 30 began to wait and can use the GPUs of the second base";
  SUBCASE("all of the node's") {}
  SUBCASE("it has room without them") {
    gpus = 2;
    expected.clear();
  }
  SUBCASE("it is the job's own base") {
    wanted = kBase + 1;
    expected.clear();
  }
  movable.daemon.slurm_says([&](SlurmSnapshot& slurm) {
    SlurmJob second = slurm_job(kBase + 1, 1000, {{kBase + 1, "n2", {0, 1}}}, "espalier:base:10:cd:beside");
    run_job(slurm, second);
    SlurmJob waits = slurm_job(wanted == 30 ? 30 : 31, 1000, {});
    waits.state = SlurmJobState::pending;
    slurm.jobs[waits.id] = waits;
    WaitingJob one;
    one.id = wanted;
    one.gpus = gpus;
    slurm.cluster.waiting = {one};
  });
  movable.link->says(wire::BasesHeld{10, {kBase, kBase + 1}, {}});
  if (expected.empty()) {
    movable.daemon.pass(500);
    CHECK_FALSE(movable.link->got<wire::WithdrawBase>().has_value());
    return;
  }
  REQUIRE(movable.daemon.until([&] { return movable.link->got<wire::WithdrawBase>().has_value(); }));
  const auto told = *movable.link->got<wire::WithdrawBase>();
  CHECK(told.job == 10);
  CHECK(told.decision == id);
  CHECK(told.reason == expected);
  movable.link->sent.clear();
  movable.daemon.pass(500);
  CHECK_FALSE(movable.link->got<wire::WithdrawBase>().has_value());  // once
}
