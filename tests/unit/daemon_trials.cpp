// A job tries other plans on its GPUs: what the planner proposes, one after the other, and what ends it.
#include <doctest/doctest.h>

#include "planner/core/coefficients_json.hpp"
#include "planner/daemon/kept_trials.hpp"
#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Job 10 on two GPUs of n1, which may have no more, and whose coefficients are measured.
struct Trying : Daemon {
  ElasticJob now;
  std::shared_ptr<TestLink> link;

  explicit Trying(int plan_trials = 2) {
    wants(plan_trials);
    now = job(10, "n1", {0, 1}, 2);
    now.model = model_cases::kShape;
    now.parallel = {};
    now.plan = uniform_plan(2, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}});
    now.total_steps = 100000;
    link = connect(1000);
    link->says(wire::Register{now, "n1", 1});
    REQUIRE(until([&] { return link->got<wire::Registered>().has_value(); }));
    const Site site = site_from_view(ClusterView{{node("n1", 4), node("n2", 4)}, {}, {}}, {}).site;
    auto known = model_cases::known_job({});
    known.gpu.resize(1);
    Profile profile = model_cases::profile_of({site.hardware, site.topology}, known, *now.plan);
    profile.shape = now.model;
    profile.steps = 8;
    profile.step = now.step = 9;
    for (ReplicaProfile& one : profile.replicas) one.spread = 0.01;
    now.profile = profile;
    link->says(wire::Status{now});
    REQUIRE(planner->jobs().at(10).profiles.settled());
    now.profile.reset();
  }
  void wants(int plan_trials) {
    PlannerSettings settings = planner->settings();
    settings.plan_trials = plan_trials;
    settings.scheduler.least_gain = 10;  // no prediction changes its plan
    planner->configure(settings);
  }
  void restarts(int plan_trials) {
    start();
    wants(plan_trials);
    link = connect(1000);
    link->says(wire::Register{now, "n1", 1});
    REQUIRE(until([&] { return link->got<wire::Registered>().has_value(); }));
    link->says(wire::Status{now});
    REQUIRE(live().profiles.settled());
  }
  const LiveJob& live() const { return planner->jobs().at(10); }
  void steps(double seconds) {
    now.step_seconds = seconds;
    link->says(wire::Status{now});
    now.step += kTrialSteps;
    link->says(wire::Status{now});
  }
  std::optional<Decision> proposed(std::int64_t after = 0) {
    const auto is_new = [&] {
      const auto got = link->got<wire::Propose>();
      return got && got->decision.id > after && live().open;
    };
    until([&] { return is_new() || live().trials.finished; });
    return is_new() ? std::optional(link->got<wire::Propose>()->decision) : std::nullopt;
  }
  void ends(const Decision& decision, const std::string& result) {
    auto message = outcome_of(decision, result, now.generation);
    if (result == "committed") {
      message.generation = ++now.generation;
      now.plan = decision.plan;
    }
    message.step = now.step;
    message.plan = *now.plan;
    link->says(message);
  }
};

}  // namespace

TEST_CASE("a job tries plans one after the other, and gets the fastest that was measured") {
  Trying daemon;
  const Plan first = *daemon.now.plan;
  daemon.steps(1);
  const auto trial = daemon.proposed();
  REQUIRE(trial);
  CHECK(trial->kind == DecisionKind::migrate);
  CHECK(trial->acquire.empty());
  CHECK(trial->reason.starts_with("a trial of 20 steps"));
  CHECK(shape_of(trial->plan) != shape_of(first));
  daemon.ends(*trial, "committed");
  daemon.steps(1.5);
  const auto second = daemon.proposed(trial->id);
  REQUIRE(second);
  CHECK(second->reason.starts_with("a trial of 20 steps"));
  CHECK(shape_of(second->plan) != shape_of(trial->plan));
  daemon.ends(*second, "committed");
  daemon.steps(1.2);
  const auto back = daemon.proposed(second->id);
  REQUIRE(back);
  CHECK(back->plan == first);
  CHECK(back->reason.find("of 3 plans that were measured on its GPUs") == 0);
  daemon.ends(*back, "committed");
  daemon.steps(1);
  CHECK_FALSE(daemon.proposed(back->id));
  CHECK(daemon.live().trials.finished);
  CHECK(daemon.planner->view()->job(10)->plans_measured == 3);
  CHECK(daemon.planner->view()->job(10)->trials_over);
}

TEST_CASE("a trial that fails is not made again") {
  Trying daemon(1);
  daemon.steps(1);
  const auto trial = daemon.proposed();
  REQUIRE(trial);
  daemon.ends(*trial, "aborted: out of memory");
  daemon.steps(1);
  CHECK_FALSE(daemon.proposed(trial->id));
  CHECK(daemon.live().trials.finished);
}

TEST_CASE("an espalierd that starts again makes no trial once more, and goes on with those that are left") {
  Trying daemon;
  const Plan first = *daemon.now.plan;
  daemon.steps(1);
  const auto trial = daemon.proposed();
  REQUIRE(trial);
  daemon.ends(*trial, "committed");
  daemon.restarts(2);
  CHECK(daemon.live().trials.measured.size() == 1);
  daemon.steps(1.5);
  const auto second = daemon.proposed(trial->id);
  REQUIRE(second);
  CHECK(shape_of(second->plan) != shape_of(first));
  CHECK(shape_of(second->plan) != shape_of(trial->plan));
  daemon.ends(*second, "committed");
  daemon.steps(1.2);
  daemon.restarts(2);
  daemon.steps(1.2);
  const auto back = daemon.proposed(second->id);
  REQUIRE(back);
  CHECK(back->plan == first);
  CHECK(back->reason.find("of 3 plans that were measured on its GPUs") == 0);
  daemon.ends(*back, "committed");
  daemon.steps(1);
  CHECK_FALSE(daemon.proposed(back->id));
  daemon.restarts(2);
  CHECK(daemon.live().trials.finished);
  CHECK(daemon.live().trials.measured.size() == 3);
}

TEST_CASE("trials that are kept are read as they were, and what is none of them counts as nothing tried") {
  const Plan plan = uniform_plan(2, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}});
  const PlanTrials trials{{{"n1", 0}, {"n1", 1}}, {{plan, 1.25}}, {{1, 2, 8}}, true, -1, 0};
  const PlanTrials read = trials_kept(kept_trials(trials));
  CHECK(read.gpus == trials.gpus);
  REQUIRE(read.measured.size() == 1);
  CHECK(read.measured[0].plan == plan);
  CHECK(read.measured[0].step_seconds == 1.25);
  CHECK(read.begun == trials.begun);
  CHECK(read.finished);
  CHECK(kept_trials({}).is_null());
  for (const Json& bad : {Json(), Json("x"), Json::object(), Json{{"gpus", 1}}}) CHECK(trials_kept(bad).gpus.empty());
}

TEST_CASE("no plan is tried by a job that is held, that will end soon, or where the site wants none") {
  for (const std::string why : {"held", "few steps", "none wanted", "nothing"}) {
    CAPTURE(why);
    Trying daemon(why == "none wanted" ? 0 : 2);
    if (why == "held") daemon.planner->hold(10, true);
    if (why == "few steps") daemon.now.total_steps = 300;
    daemon.steps(1);
    if (why == "nothing") CHECK(daemon.proposed());
    else daemon.pass(400);
    CHECK(daemon.link->got<wire::Propose>().has_value() == (why == "nothing"));
  }
}

TEST_CASE("a job that may try nothing more goes back to the fastest plan all the same") {
  Trying daemon;
  const Plan first = *daemon.now.plan;
  daemon.steps(1);
  const auto trial = daemon.proposed();
  REQUIRE(trial);
  daemon.ends(*trial, "committed");
  daemon.now.total_steps = daemon.now.step + 100;
  daemon.steps(1.5);
  const auto back = daemon.proposed(trial->id);
  REQUIRE(back);
  CHECK(back->plan == first);
}
