// Bases of movable jobs that the planner moves by itself to GPUs on which their jobs train faster.
#include <doctest/doctest.h>

#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

constexpr JobId kBase = 1010;

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
  static ElasticJob report(const std::optional<Profile>& profile) {
    ElasticJob one = job(10, "n1", {0, 1}, 2);
    one.anchor.front().job = kBase;
    one.model = model_cases::kShape;
    one.plan = uniform_plan(2, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}});
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
    const Site site = site_from_view(daemon.planner->last_snapshot()->cluster, {}).site;
    JobCoefficients known = model_cases::known_job({});
    known.gpu.resize(site.hardware.types.size(), known.gpu.front());
    Profile profile = model_cases::profile_of({site.hardware, site.topology}, known, *report({}).plan);
    profile.step = 10;
    profile.steps = 8;
    for (ReplicaProfile& one : profile.replicas) one.spread = 0.001;
    link->says(wire::Status{report(profile)});
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
