#include "launcher/job/pause.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "planner/wire/clock.hpp"
#include "tests/unit/launcher_line.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Processes final : Ranks {
  bool running() const override { return true; }
  void signal(int) const override {}
};

struct Job {
  plan_files::Folder folder;
  wire::Loop loop;
  JobContext context;
  std::vector<wire::Outcome> reports;
  Directory directory{folder.path(""), 7, 0};
  EarlierGenerations earlier{[](const wire::Keep&) {}};
  StepWatch steps{loop, 60, [](const std::string&) {}};
  Generations generations{loop, context, directory, earlier, callbacks()};
  Pause pause{context, generations, steps, [this](const wire::Outcome& told) { reports.push_back(told); }};

  static Generations::Callbacks callbacks() {
    Generations::Callbacks on;
    on.holdings = [] { return std::vector<Holding>{{7, "n1", {0, 1}}}; };
    on.environment = [](int) { return std::vector<std::string>(); };
    on.run = [](const WorldRequest&, RanksCallbacks) { return std::make_unique<Processes>(); };
    on.hello = [](const wire::Hello&, bool) {};
    on.loaded = [] {};
    return on;
  }
  // Another generation with one rank is the running one from now on, on GPU `gpu`. Before the pause `early` bytes of
  // its state have come.
  void succeed(int gpu, std::int64_t early) {
    const Plan plan = uniform_plan(1, 1, 8, 16, 4, {{"n1", gpu}});
    generations.start_next(plan, std::nullopt);
    wire::Hello hello;
    hello.node = "n1";
    hello.generation = generations.next()->generation();
    const auto rank = std::make_shared<cases::Line>();
    generations.next()->adopt(rank, hello);
    wire::Loaded loaded;
    loaded.step = 12;
    loaded.bytes_sent_early = early;
    rank->on_frame(wire::to_frame(loaded));
    generations.succeed(plan, 12);
  }
};

// A change that was committed just now; the seconds are before that.
Change committed(const std::vector<std::pair<const char*, double>>& phases) {
  Change change;
  change.decision.id = 5;
  change.boundary = 12;
  const auto now = wire::steady_now();
  for (const auto& [phase, seconds] : phases)
    change.at[phase] = now - std::chrono::milliseconds(static_cast<int>(seconds * 1000));
  change.at["commit"] = now;
  return change;
}

double rounded(double ms) { return std::round(ms / 100) * 100; }

}  // namespace

TEST_CASE("what each phase of a change of generation took is told with the first step, and predicts the next change") {
  Job one;
  one.pause.generation_0_took(9);
  CHECK(one.pause.start_seconds() == 9);
  Change change = committed({{"proposed", 30}, {"acquired", 20}, {"ready", 5}, {"asked", 5}, {"boundary", 2}});
  change.load_phases_ms = {{"copy", 3}};
  one.pause.begin(change);
  CHECK(change.decision.id == 5);
  CHECK(change.at.empty());
  CHECK(one.reports.empty());
  wire::Step step;
  step.step = 13;
  one.pause.stepped(step);
  REQUIRE(one.reports.size() == 1);
  const wire::Outcome& told = one.reports.front();
  CHECK(told.result == "committed");
  CHECK(told.step == 12);
  CHECK(rounded(told.phases_ms.at("acquire")) == 10000);
  CHECK(rounded(told.phases_ms.at("start")) == 15000);
  CHECK(rounded(told.phases_ms.at("boundary")) == 3000);
  CHECK(rounded(told.phases_ms.at("load")) == 2000);
  CHECK(told.phases_ms.at("load_copy") == 3);
  CHECK(rounded(one.pause.start_seconds() * 1000) == 15000);
  CHECK(one.pause.predicted_seconds() > 15);
}

TEST_CASE("a generation that starts after the old one has ended starts within the pause") {
  Job one;
  Change change = committed({{"proposed", 30}, {"asked", 25}, {"boundary", 20}, {"ready", 5}});
  one.pause.begin(change);
  one.pause.stepped({});
  REQUIRE(one.reports.size() == 1);
  CHECK(rounded(one.reports.front().phases_ms.at("start")) == 15000);
  CHECK(rounded(one.reports.front().phases_ms.at("load")) == 5000);
}

TEST_CASE("a validation before the old generation stands, or before the new one's first step, is no pause") {
  Job one;
  one.steps.stepped({});
  one.steps.progressed();  // a part of the validation, which a change then stops
  const auto worked = one.steps.last_work_at();
  Change change = committed({});
  change.at = {{"proposed", worked}, {"ready", worked}, {"asked", worked}};
  change.at["boundary"] = worked + std::chrono::milliseconds(1000);
  change.at["commit"] = worked + std::chrono::milliseconds(3000);
  one.pause.begin(change);
  one.pause.progressed();
  one.pause.progressed();
  wire::Step step;
  step.step = 13;
  step.seconds = -600;  // as if the first step came ten minutes after the commit, without taking so long
  one.pause.stepped(step);
  REQUIRE(one.reports.size() == 1);
  CHECK(rounded(one.reports.front().phases_ms.at("stand")) == 1000);
  CHECK(one.reports.front().pause_ms < 4000);
  // Without a validation it is.
  one.pause.begin(change = committed({{"boundary", 1}}));
  one.pause.stepped(step);
  REQUIRE(one.reports.size() == 2);
  CHECK(one.reports.back().phases_ms.at("resume") > 590000);
}

TEST_CASE("through the disk the checkpoint's progress is part of the pause, and a validation before it is not") {
  Job one;
  one.steps.stepped({});
  const auto stepped = one.steps.last_step_at();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  one.steps.progressed();
  const auto now = one.steps.last_work_at();
  Change change = committed({});
  change.by_disk = true;
  SUBCASE("the checkpoint tells of its progress until it is written, and the next generation loads it") {
    change.at = {{"proposed", stepped}, {"ready", stepped}, {"asked", stepped}, {"boundary", now}, {"commit", now}};
    one.pause.begin(change);
    one.pause.stepped({});
    REQUIRE(one.reports.size() == 1);
    CHECK(one.reports.front().phases_ms.at("stand") >= 300);
    CHECK(one.reports.front().pause_ms >= 300);
    CHECK(one.pause.predicted_seconds() >= 0.3);
  }
  SUBCASE("the progress was a validation's: the boundary was asked for after it") {
    const auto later = now + std::chrono::milliseconds(1000);
    change.at = {{"proposed", now}, {"ready", now}, {"asked", now}, {"boundary", later}, {"commit", later}};
    one.pause.begin(change);
    one.pause.stepped({});
    REQUIRE(one.reports.size() == 1);
    CHECK(one.reports.front().phases_ms.at("stand") == doctest::Approx(1000));
  }
  SUBCASE("the boundary was asked for in the middle of the last step") {
    one.steps.stepped({});
    const auto end = one.steps.last_step_at(), later = end + std::chrono::milliseconds(1000);
    change.at = {{"proposed", stepped}, {"ready", stepped}, {"asked", stepped}, {"boundary", later}, {"commit", later}};
    one.pause.begin(change);
    one.pause.stepped({});
    REQUIRE(one.reports.size() == 1);
    CHECK(one.reports.front().phases_ms.at("stand") == doctest::Approx(1000));
  }
  SUBCASE("from process to process all progress is a validation's") {
    change.by_disk = false;
    change.at = {{"proposed", stepped}, {"ready", stepped}, {"asked", stepped}, {"boundary", now}, {"commit", now}};
    one.pause.begin(change);
    one.pause.stepped({});
    REQUIRE(one.reports.size() == 1);
    CHECK(one.reports.front().phases_ms.at("stand") == 0);
  }
}

TEST_CASE("a change whose generation is lost before its first step is told of as committed, and once") {
  Job one;
  Change change = committed({{"proposed", 3}, {"ready", 2}, {"asked", 2}, {"boundary", 1}});
  one.pause.begin(change);
  one.pause.lost();
  one.pause.lost();
  REQUIRE(one.reports.size() == 1);
  CHECK(one.reports.front().result == "committed");
  CHECK(one.reports.front().phases_ms.at("resume") == 0);
}

TEST_CASE("of two changes that are committed before the first step each is reported with what itself has led to") {
  Job one;
  Change first = committed({{"proposed", 30}, {"ready", 20}, {"asked", 5}, {"boundary", 2}});
  first.load_phases_ms = {{"early", 4000}};
  one.succeed(0, 100);
  const int number = one.generations.number();
  one.pause.begin(first);
  Change second = committed({{"proposed", 3}, {"ready", 2}, {"asked", 2}, {"boundary", 1}});
  second.decision.id = 6;
  second.boundary = 14;
  one.succeed(1, 0);
  one.pause.begin(second);
  REQUIRE(one.reports.size() == 1);
  CHECK(one.reports[0].decision == 5);
  CHECK(one.reports[0].result == "committed");
  CHECK(one.reports[0].generation == number);
  CHECK(one.reports[0].plan.ranks() == std::vector<GpuId>{{"n1", 0}});
  CHECK(one.reports[0].step == 12);
  CHECK(one.reports[0].phases_ms.at("first_step") == 0);  // it had none
  // The state that had come early counts as load time: 2 s and 4 s, beside 10 s without those 4 s of start.
  CHECK(rounded(one.pause.start_seconds() * 1000) == 6000);
  CHECK(rounded(one.pause.predicted_seconds() * 1000 - one.reports[0].phases_ms.at("stand")) == 12000);
  wire::Step step;
  step.step = 15;
  one.pause.stepped(step);
  REQUIRE(one.reports.size() == 2);
  CHECK(one.reports[1].decision == 6);
  CHECK(one.reports[1].generation == number + 1);
  CHECK(one.reports[1].plan.ranks() == std::vector<GpuId>{{"n1", 1}});
  CHECK(one.reports[1].step == 14);
  CHECK(rounded(one.reports[1].phases_ms.at("boundary")) == 1000);
}
