// What one user's messages may cost: lines of the log, and the time of the event loop. What honest users need.
#include <doctest/doctest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <sstream>

#include "planner/daemon/clock.hpp"
#include "planner/daemon/loop_time.hpp"
#include "planner/daemon/user_log.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// The log of all code in this process, as text.
struct Log {
  std::ostringstream text;
  std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  Log() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
    spdlog::set_level(spdlog::level::info);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() {
    spdlog::set_default_logger(before);
    spdlog::set_level(spdlog::level::off);
  }
  std::size_t lines(const std::string& what) const {
    std::istringstream in(text.str());
    std::size_t count = 0;
    for (std::string line; std::getline(in, line);) count += line.find(what) != line.npos;
    return count;
  }
};

ElasticJob in_job(JobId id, const std::string& node, std::vector<int> gpus) {
  ElasticJob result = job(10, node, std::move(gpus));
  result.id = id;
  for (Holding& held : result.anchor) held.job = id;
  return result;
}

}  // namespace

TEST_CASE("a user who comes back again and again to be refused gets a bounded number of lines in the log") {
  Daemon daemon(true);
  REQUIRE(daemon.until([&] { return daemon.planner->last_snapshot() != nullptr; }));
  const Log log;
  const auto refused = [&](uid_t uid) {
    for (int i = 0; i < 400; ++i) daemon.connect(uid)->says(wire::Bye{99, 0});
  };
  refused(1001);
  CHECK(log.lines("(uid 1001)") == UserLog::kLines);
  daemon.connect(1002)->says(wire::Bye{99, 0});
  CHECK(log.lines("(uid 1002)") == 1);  // others are not left out
  daemon.planner->log().tell_left_out(clock_seconds());
  CHECK(log.lines("left out") == 0);
  daemon.planner->log().tell_left_out(clock_seconds() + 61);
  CHECK(log.lines("uid 1001: 370 more lines") == 1);
  CHECK(log.lines("left out") == 1);
}

TEST_CASE("a user cannot hide that a job is ended behind lines of its own messages") {
  Daemon daemon;
  REQUIRE(daemon.until([&] { return daemon.planner->last_snapshot() != nullptr; }));
  const Log log;
  for (int i = 0; i < 400; ++i) daemon.connect(1001)->says(wire::Bye{99, 0});
  REQUIRE(log.lines("(uid 1001)") == UserLog::kLines);
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    slurm.jobs[50] = slurm_job(50, 1001, {}, "espalier:ext:3:0123abcd stage-profile:a100");
  });
  CHECK(daemon.until([&] { return log.lines("profile job 50 of job 3: ") == 1; }));
}

TEST_CASE("a launcher whose profiles are refused for ever other reasons gets a bounded number of lines in the log") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>() && daemon.planner->site(); }));
  const Log log;
  for (int i = 0; i < 200; ++i) {
    ElasticJob report = in_job(10, "n1", {0, 1});
    report.profile.emplace().plan = *report.plan;
    report.profile->shape = report.model;
    report.profile->step = 1;
    report.profile->replicas.resize(i % 2 == 0 ? 0U : 7U);
    link->says(wire::Status{report});
  }
  REQUIRE_FALSE(link->closed);
  CHECK(log.lines("the profile is not used") > 1);
  CHECK(log.lines("job 10") <= UserLog::kLines + UserLog::kLinesOfJob);
}

TEST_CASE("a hold ends with the job that it was of, also where Slurm gives the number to another user's") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>() && daemon.planner->last_snapshot(); }));
  daemon.planner->hold(10, true);
  daemon.start(true);
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    slurm.jobs.clear();
    run_job(slurm, slurm_job(10, 1001, {{10, "n1", {0, 1}}}));
  });
  const auto other = daemon.launcher(1001);
  REQUIRE(daemon.until([&] { return other->got<wire::Registered>().has_value(); }));
  CHECK_FALSE(daemon.planner->jobs().at(10).job.held);
  CHECK_FALSE(daemon.store.held(10));
}

TEST_CASE("nothing is read from a user who has taken too much of the loop's time, on whatever connection") {
  Daemon daemon(true);
  REQUIRE(daemon.until([&] { return daemon.planner->last_snapshot() != nullptr; }));
  const auto first = daemon.connect(1001), second = daemon.connect(1001), other = daemon.connect(1002);
  REQUIRE(first->may_take);
  CHECK(first->may_take());
  first->on_taken(1.02);
  CHECK_FALSE(first->may_take());
  CHECK_FALSE(second->may_take());
  CHECK_FALSE(daemon.connect(1001)->may_take());  // a new connection is no way around it
  CHECK(other->may_take());
  CHECK_FALSE(daemon.connect(0)->may_take);  // administrators are not bounded
  CHECK(first->resumed == 0);
  CHECK(daemon.until([&] { return first->resumed == 1 && second->resumed == 1; }));
  CHECK(first->may_take());
  CHECK_FALSE(first->closed);
}

TEST_CASE("whoever has many jobs leaves others their turn all the same") {
  LoopTime time;
  constexpr std::size_t kWeight = 2 * 100;  // a hundred jobs of a GPU
  double now = 1000, taken = 0;
  for (; now < 1060; now += 0.001)
    if (time.wait(1000, kWeight, now) <= 0) {
      time.charge(1000, kWeight, now, 0.02);
      taken += 0.02;
    }
  CHECK(taken / 60 < 0.6);
  double longest = 0;
  for (int i = 0; i < 100 && time.wait(1001, 2, now) <= 0; ++i, longest += 0.01) time.charge(1001, 2, now, 0.01);
  CHECK(longest < 0.07);
}

TEST_CASE("all launchers of the user who has a whole site are back within a minute") {
  LoopTime time;
  constexpr std::size_t kLaunchers = 5000, kWeight = kLaunchers + 16384;
  constexpr double kRegistration = 0.004;  // twice what it takes
  double now = 1000;
  for (std::size_t back = 0; back < kLaunchers;) {
    const double wait = time.wait(1000, kWeight, now);
    if (wait <= 0) time.charge(1000, kWeight, now, kRegistration), ++back;
    now += wait <= 0 ? kRegistration : wait;
  }
  CHECK(now - 1000 < 60);
}

TEST_CASE("jobs that cannot be elastic give a user no more messages, bytes or rows") {
  Daemon daemon(true);
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    for (JobId id = 1000; id < 1100; ++id) run_job(slurm, slurm_job(id, 1001, {}));
    run_job(slurm, slurm_job(50, 1001, {{50, "n2", {0}}}));
    run_job(slurm, slurm_job(51, 1001, {{51, "n2", {1, 2}}}, "espalier:ext:50:0123abcd"));
  });
  const Planner& planner = *daemon.planner;
  CHECK(planner.jobs_of(1001) == 101);  // each may have a connection
  CHECK(planner.elastic_jobs_of(1001) == 1);
  CHECK(planner.weight_of(1001) == 1 + 3);
  CHECK(planner.weight_of(1000) == 1 + 2);
  CHECK(planner.weight_of(1002) == 0);
}

TEST_CASE("launchers of jobs without GPUs count, up to a number that honest users need") {
  Daemon daemon(true);
  constexpr std::size_t kJobs = 3 * Planner::kJobsWithoutGpus;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    for (JobId id = 0; id < static_cast<JobId>(kJobs); ++id) run_job(slurm, slurm_job(1000 + id, 1001, {}));
  });
  std::vector<std::shared_ptr<TestLink>> links;
  for (std::size_t i = 0; i < kJobs; ++i) {
    links.push_back(daemon.connect(1001));
    ElasticJob one = in_job(1000 + static_cast<JobId>(i), "n1", {0});
    one.anchor.clear();
    one.plan.reset();
    one.phase = JobPhase::launching;
    links.back()->says(wire::Register{one, "n1", static_cast<int>(i)});
  }
  CHECK(daemon.until([&] {
    return std::all_of(links.begin(), links.end(),
                       [](const auto& link) { return link->template got<wire::Registered>(); });
  }));
  CHECK(daemon.planner->elastic_jobs_of(1001) == Planner::kJobsWithoutGpus);
}
