// A site lowers extensions.max_gpus while jobs train on more GPUs.
#include <doctest/doctest.h>

#include <cmath>

#include "planner/daemon/strays.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Job 10 on n1/0-1, with extension 20 on the other GPUs of n1 and extension 21 on n2.
void lend(SlurmSnapshot& slurm) {
  run_job(slurm, slurm_job(20, 1000, {{20, "n1", {2, 3}}}, "espalier:ext:10:ab"));
  run_job(slurm, slurm_job(21, 1000, {{21, "n2", {0, 1, 2, 3}}}, "espalier:ext:10:cd"));
}

ElasticJob grown() {
  ElasticJob one = job(10, "n1", {0, 1});
  extend(one, 20, "n1", {2, 3});
  extend(one, 21, "n2", {0, 1, 2, 3});
  return one;
}

std::shared_ptr<TestLink> launcher_of(Daemon& daemon, const ElasticJob& one) {
  auto link = daemon.connect(1000);
  link->says(wire::Register{one, "n1", 1});
  return link;
}

void lower_limit(Daemon& daemon, int max_gpus) {
  PlannerSettings settings = daemon.planner->settings();
  settings.max_gpus = max_gpus;
  daemon.planner->configure(settings);
}

}  // namespace

TEST_CASE("a job that holds more than the site allows now gives the youngest extensions back, and trains on") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) { lend(slurm); });
  lower_limit(daemon, 4);
  bool held = false;
  SUBCASE("where it may grow") {}
  SUBCASE("also where it is held") { held = true; }
  daemon.planner->hold(10, held);
  const auto link = launcher_of(daemon, grown());
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Decision decision = link->got<wire::Propose>()->decision;
  CHECK(decision.kind == DecisionKind::shrink);
  CHECK(decision.release == std::vector<JobId>{21});
  CHECK(decision.plan.gpu_count() == 4);
  CHECK(validate(decision.plan, 8).empty());
  CHECK(decision.reason.find("extensions.max_gpus (4)") != std::string::npos);
  daemon.pass(300);
  CHECK(daemon.slurm_state->killed.empty());
  link->says(outcome_of(decision, "aborted: busy", 0));
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>()->decision.id != decision.id; }));  // once more
  CHECK(link->got<wire::Propose>()->decision.release == std::vector<JobId>{21});
}

TEST_CASE("hundreds of jobs beyond a lowered limit are all asked, and the loop answers others in between") {
  Daemon daemon;
  constexpr int kJobs = 1000;
  std::vector<ElasticJob> jobs;
  for (int n = 0; n < kJobs; ++n) {
    const std::string own = "a" + std::to_string(n), lent = "b" + std::to_string(n);
    ElasticJob one = job(1000 + n, own, {0, 1, 2, 3, 4, 5, 6, 7}, 64);
    deepen(one, 60);
    extend(one, 3000 + n, lent, {0, 1, 2, 3, 4, 5, 6, 7});
    jobs.push_back(std::move(one));
  }
  daemon.slurm_says([&](SlurmSnapshot& slurm) {
    for (const ElasticJob& one : jobs) {
      const Holding &own = one.anchor.front(), &lent = one.extensions.front();
      slurm.cluster.nodes.push_back(node(own.node, 8));
      slurm.cluster.nodes.push_back(node(lent.node, 8));
      run_job(slurm, slurm_job(one.id, 1000, {{one.id, own.node, own.gpus}}));
      run_job(slurm, slurm_job(lent.job, 1000, {{lent.job, lent.node, lent.gpus}},
                               "espalier:ext:" + std::to_string(one.id) + ":ab"));
    }
    std::sort(slurm.cluster.nodes.begin(), slurm.cluster.nodes.end(),
              [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
  });
  std::vector<std::shared_ptr<TestLink>> links;
  for (const ElasticJob& one : jobs) {
    daemon.planner->hold(one.id, true);  // nothing else is asked of it
    links.push_back(launcher_of(daemon, one));
  }
  const auto asked = [&] {
    return std::count_if(links.begin(), links.end(),
                         [](const auto& link) { return link->template got<wire::Propose>().has_value(); });
  };
  const auto registered = [&] {
    return std::all_of(links.begin(), links.end(),
                       [](const auto& link) { return link->template got<wire::Registered>().has_value(); });
  };
  for (int tries = 0; tries < 20 && !registered(); ++tries) daemon.pass(200);
  REQUIRE(registered());
  REQUIRE(asked() == 0);
  lower_limit(daemon, 8);
  int between = 0;
  const auto ticks =
      daemon.loop.every(std::chrono::milliseconds(5), [&] { between += asked() > 0 && asked() < kJobs; });
  for (int tries = 0; tries < 60 && asked() < kJobs; ++tries) daemon.pass(500);
  CHECK(asked() == kJobs);
  MESSAGE("in between the loop answered ", between, " times");
  CHECK(between > 0);
  CHECK(daemon.killed().empty());
}

TEST_CASE("a job keeps its own GPUs, whatever the site allows, and gives all extensions back") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) { lend(slurm); });
  lower_limit(daemon, 1);
  const auto link = launcher_of(daemon, grown());
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  CHECK(link->got<wire::Propose>()->decision.release == std::vector<JobId>{20, 21});
  CHECK(link->got<wire::Propose>()->decision.plan.gpu_count() == 2);
}

TEST_CASE(
    "a job that could not train on what the site leaves it is asked for nothing, and its plan not looked for again and "
    "again") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) { lend(slurm); });
  lower_limit(daemon, 4);
  ElasticJob one = grown();
  one.floor_gpus = 6;
  const auto link = launcher_of(daemon, one);
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  REQUIRE(daemon.until([&] { return daemon.planner->jobs().at(10).no_smaller_before > 0; }));
  const double next = daemon.planner->jobs().at(10).no_smaller_before;
  daemon.pass(300);
  CHECK(daemon.planner->jobs().at(10).no_smaller_before == next);
  CHECK_FALSE(link->got<wire::Propose>());
}

namespace {

using Beyond = std::map<JobId, std::vector<JobId>>;

// Job 10 with both extensions, where the site allows four GPUs and 240 s to give the others back.
struct BeyondLimit {
  Strays strays{"elastic"};
  SlurmSnapshot slurm;
  std::map<JobId, LiveJob> jobs;
  LiveJob& live = jobs[10];

  BeyondLimit() {
    slurm.cluster.nodes = {node("n1", 4), node("n2", 4)};
    run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1}}}));
    lend(slurm);
    live.job = grown();
    live.link = std::make_shared<TestLink>(1000);
  }
  // What a look at this time ends.
  std::vector<JobId> ended(double time) {
    slurm.time = time;
    std::vector<JobId> ids;
    for (const auto& stray : strays.look(slurm, jobs, 4, 240)) ids.push_back(stray.extension);
    return ids;
  }
};

}  // namespace

TEST_CASE_FIXTURE(BeyondLimit,
                  "an extension beyond the limit that its launcher claims is ended only when it was not given back") {
  CHECK(ended(1000).empty());
  CHECK(strays.beyond_limit() == Beyond{{10, {21}}});
  CHECK(ended(1100).empty());
  live.open.emplace();  // it is asked for them, and the time goes on
  CHECK(ended(1239).empty());
  CHECK(ended(1300).empty());
  CHECK(strays.beyond_limit().empty());
  live.open.reset();  // it has not given them back
  CHECK(ended(1301) == std::vector<JobId>{21});

  SUBCASE("it is named again while it is there") {
    CHECK(ended(1305).empty());
    CHECK(ended(1312) == std::vector<JobId>{21});
  }
  SUBCASE("a job that Slurm has suspended cannot give anything back") {
    slurm.jobs[10].suspended = true;
    CHECK(ended(2000).empty());
    slurm.jobs[10].suspended = false;
    CHECK(ended(2001).empty());
  }
  SUBCASE("one that the launcher does not claim has 30 s, as ever") {
    live.job.extensions.pop_back();
    CHECK(ended(1400).empty());
    CHECK(strays.beyond_limit().empty());
    CHECK(ended(1431) == std::vector<JobId>{21});
  }
}

TEST_CASE_FIXTURE(BeyondLimit, "time in which a launcher cannot be asked is no time to give an extension back") {
  CHECK(ended(1000).empty());
  CHECK(ended(1200).empty());
  SUBCASE("it is away") { live.link.reset(); }
  SUBCASE("it changes its plan by itself") { live.job.phase = JobPhase::recovering; }
  SUBCASE("Slurm has suspended it") { slurm.jobs[10].suspended = true; }
  CHECK(ended(1400).empty());
  CHECK(strays.beyond_limit().empty());
  live.link = std::make_shared<TestLink>(1000);
  live.job.phase = JobPhase::running;
  slurm.jobs[10].suspended = false;
  CHECK(ended(1401).empty());
  CHECK(strays.beyond_limit() == Beyond{{10, {21}}});
  CHECK(ended(1439).empty());
  CHECK(ended(1441) == std::vector<JobId>{21});
}

TEST_CASE_FIXTURE(BeyondLimit, "a launcher that drops its connection again and again keeps no extension by it") {
  double time = 1000;
  std::vector<JobId> gone;
  for (; gone.empty() && time < 2000; time += 10) {
    live.link = std::fmod(time, 20) == 0 ? std::make_shared<TestLink>(1000) : nullptr;
    gone = ended(time);
  }
  CHECK(gone == std::vector<JobId>{21});
  CHECK(time <= 1520);  // 240 s while it was connected
}

TEST_CASE_FIXTURE(BeyondLimit, "a launcher that claims an extension now and then keeps it no longer by that") {
  double time = 1000;
  std::vector<JobId> gone;
  for (; gone.empty() && time < 2000; time += 10) {
    live.job.extensions.back().job = std::fmod(time, 20) == 0 ? 21 : 99;
    gone = ended(time);
  }
  CHECK(gone == std::vector<JobId>{21});
  CHECK(time <= 1300);
}
