#include "launcher/slurm/extension_jobs.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "launcher/slurm/extension_notices.hpp"
#include "planner/core/error.hpp"
#include "tests/unit/launcher_line.hpp"
#include "tests/unit/loop_until.hpp"

using namespace espalier;
using namespace espalier::launcher;
using espalier::launcher::cases::Line;

namespace {

// Nothing here asks Slurm itself: no extension is given back at once.
struct Job {
  wire::Loop loop;
  BlockingThread slurm{loop};
  JobContext context;
  std::string log;
  std::atomic<int> questions = 0;  // about preempted extensions
  std::set<JobId> preempted;       // as Slurm would say
  std::unique_ptr<ExtensionJobs> jobs;
  std::unique_ptr<ExtensionNotices> notices;

  explicit Job(double heartbeat_seconds = 60) {
    context.config.heartbeat_seconds = heartbeat_seconds;
    ExtensionJobs::Callbacks on;
    on.noticed = [this](JobId id) { notices->notice(id); };
    on.lost = [this](const Holding& holding, bool) { log += "lost " + holding.node + " "; };
    on.refused = [this](const Holding& holding, const std::string& why) { log += holding.node + " " + why; };
    on.came = [this](JobId id, const ExtensionRequest&) { log += "came " + std::to_string(id) + " "; };
    on.leaves = [this](JobId id) { log += "leaves " + std::to_string(id) + " "; };
    on.released = [this](JobId id) { log += "released " + std::to_string(id) + " "; };
    jobs = std::make_unique<ExtensionJobs>(loop, slurm, context, std::move(on));
    notices = std::make_unique<ExtensionNotices>(
        loop, slurm, *jobs, [this](JobId id) { log += "noticed " + std::to_string(id) + " "; },
        [this](const std::set<JobId>& ids) { return asked(ids); });
    ExtensionRequest request;
    request.node = "n2";
    request.gpus = 2;
    jobs->add(20, request);
  }
  std::map<JobId, SlurmJob> asked(const std::set<JobId>& ids) {
    ++questions;
    std::map<JobId, SlurmJob> seen;
    for (const JobId id : ids) seen[id].preempted = preempted.contains(id);
    return seen;
  }
  // `count` extensions that run, from 1000 on.
  void many_run(int count) const {
    for (JobId id = 1000; id < 1000 + static_cast<JobId>(count); ++id) {
      jobs->add(id, {});
      jobs->runs(id, {id, "n3", {0}});
    }
  }
  void run_for(std::chrono::milliseconds time) {
    const auto end = loop.after(time, [this] { loop.stop(); });
    loop.run();
  }
  std::shared_ptr<Line> keeper() const {
    auto line = std::make_shared<Line>();
    wire::KeeperHello hello;
    hello.job = 20;
    jobs->adopt(line, hello);
    return line;
  }
  void runs() const { jobs->runs(20, {20, "n2", {0, 3}}); }
  void leaves_later() const { jobs->release(20, std::chrono::seconds(60)); }
};

}  // namespace

TEST_CASE("an extension that is being acquired is granted once it runs, and then the job's") {
  Job one;
  CHECK(one.jobs->holdings(true).empty());
  one.runs();
  REQUIRE(one.jobs->granted().size() == 1);
  CHECK(one.jobs->granted().front().gpus == std::vector<int>{0, 3});
  CHECK(one.jobs->holdings(true).size() == 1);
  CHECK(one.jobs->holdings(false).empty());
  one.jobs->keep_acquired();
  CHECK(one.jobs->granted().empty());
  CHECK(one.jobs->holdings(false).size() == 1);
}

TEST_CASE("only an extension that is being acquired can be refused: the job's own state may be on the others") {
  Job one;
  CHECK_FALSE(one.jobs->refuse(21, "nobody's"));
  one.runs();
  one.jobs->keep_acquired();
  CHECK_FALSE(one.jobs->refuse(20, "its GPU is lost"));
  CHECK(one.jobs->held(20) != nullptr);
  CHECK(one.log == "");
  Job two;
  two.leaves_later();
  CHECK_FALSE(two.jobs->refuse(20, "its GPU is lost"));
  CHECK(two.log == "leaves 20 ");
}

TEST_CASE("an extension that is being given back is no holding of the job, though Slurm still has it") {
  Job one;
  one.runs();
  one.jobs->keep_acquired();
  one.leaves_later();
  one.leaves_later();
  CHECK(one.log == "leaves 20 ");
  CHECK(one.jobs->holdings(true).empty());
  CHECK(one.jobs->held(20) == nullptr);
  CHECK(one.jobs->all().contains(20));
  CHECK(one.keeper()->types() == "give_back ");  // its keeper comes too late
}

TEST_CASE("a launcher that has a successor leaves its extensions to it, and tells no keeper to give back") {
  Job one;
  one.runs();
  one.jobs->keep_acquired();
  const auto line = one.keeper();
  SUBCASE("one in use") {}
  SUBCASE("one that it would have given back in a moment") { one.leaves_later(); }
  one.jobs->leave_to_next();
  CHECK(line->types() == "heartbeat ");
  CHECK(line->closed);
  CHECK(one.log == "came 20 leaves 20 ");  // no rank server is started there any more
  CHECK(one.jobs->all().empty());
  line->on_closed("closed");
  CHECK(one.log == "came 20 leaves 20 ");  // it is not lost
}

TEST_CASE("a keeper is greeted, and refused where none is awaited or there is one") {
  Job one;
  const auto line = one.keeper();
  CHECK(line->types() == "heartbeat ");
  CHECK(one.log == "came 20 ");
  CHECK_THROWS_WITH_AS(one.keeper(), "keeper: job 20 is not awaited", Error);
  one.jobs->forget(20);
  CHECK_THROWS_AS(one.keeper(), Error);
}

TEST_CASE("an extension that ended before it was used leaves, for its rank server to be stopped, and no second time") {
  Job one;
  one.keeper();
  one.jobs->forget(20);
  one.jobs->forget(20);
  CHECK(one.log == "came 20 leaves 20 ");
  CHECK(one.jobs->all().empty());
  Job two;
  two.leaves_later();
  two.jobs->forget(20);
  CHECK(two.log == "leaves 20 ");
}

TEST_CASE("a keeper that misses heartbeats falters until it is heard") {
  Job one(0.005);
  const auto line = one.keeper();
  CHECK_FALSE(one.jobs->falters(20));
  const auto look = one.loop.every(std::chrono::milliseconds(1), [&] {
    if (one.jobs->falters(20)) one.loop.stop();
  });
  const auto limit = one.loop.after(std::chrono::seconds(60), [&] { one.loop.stop(); });
  one.loop.run();
  CHECK(one.jobs->falters(20));
  line->on_frame(wire::to_frame(wire::Heartbeat{}));
  CHECK_FALSE(one.jobs->falters(20));
}

TEST_CASE("a notice is told once, and not of an extension that is being given back") {
  Job one;
  one.notices->notice(20);
  one.notices->notice(20);
  one.notices->notice(21);  // nobody's
  CHECK(one.log == "noticed 20 ");
  CHECK(one.notices->noticed() == std::set<JobId>{20});
  CHECK(one.notices->since_notice({20}) > 0);
  CHECK(one.notices->since_notice({21}) == 0);
  one.leaves_later();
  CHECK(one.notices->noticed().empty());
  CHECK(one.notices->since_notice({20}) > 0);
  one.jobs->forget(20);
  CHECK(one.notices->since_notice({20}) == 0);
}

TEST_CASE("a keeper's notice counts, and comes to nothing once the extension leaves") {
  Job one;
  const auto line = one.keeper();
  one.log.clear();
  wire::Notice notice;
  notice.job = 20;
  SUBCASE("in time") {
    line->on_frame(wire::to_frame(notice));
    CHECK(one.log == "noticed 20 ");
  }
  SUBCASE("late") {
    one.leaves_later();
    line->on_frame(wire::to_frame(notice));
    CHECK(one.log == "leaves 20 ");
  }
}

TEST_CASE("a notice asks Slurm about all other extensions in one question") {
  Job one;
  one.many_run(300);
  one.preempted = {1250};
  int asked = 0;
  for (const JobId id : {1000, 1001, 1002, 1003, 1004}) {
    one.notices->notice(id);
    ++asked;
    CHECK(espalier::test::until(
        one.loop, [&] { return one.questions.load() == asked && one.log.find("noticed 1250") != std::string::npos; }));
    one.run_for(std::chrono::milliseconds(200));  // for the answer, which changes nothing
  }
  CHECK(one.questions.load() == 5);
  CHECK(one.log == "noticed 1000 noticed 1250 noticed 1001 noticed 1002 noticed 1003 noticed 1004 ");
}

TEST_CASE("a question whose answer would come too late is not asked") {
  Job one;
  one.many_run(300);
  std::promise<void> asked, answers;
  one.slurm.post([&asked, wait = answers.get_future().share()]() -> std::function<void()> {
    asked.set_value();
    wait.wait();
    return nullptr;
  });
  asked.get_future().wait();
  one.notices->notice(1000);
  one.run_for(std::chrono::milliseconds(1000));
  CHECK(one.log == "noticed 1000 ");
  answers.set_value();
  CHECK(one.slurm.drain(std::chrono::seconds(10)));
  CHECK(one.questions.load() == 0);
}
