#include "launcher/job/pause.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "planner/wire/clock.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Job {
  plan_files::Folder folder;
  wire::Loop loop;
  JobContext context;
  std::vector<wire::Outcome> reports;
  Directory directory{folder.path(""), 7, 0};
  EarlierGenerations earlier{[](const wire::Keep&) {}};
  StepWatch steps{loop, 60, [](const std::string&) {}};
  Generations generations{loop, context, directory, earlier, {}};
  Pause pause{context, generations, steps, [this](const wire::Outcome& told) { reports.push_back(told); }};
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

TEST_CASE("of two changes that are committed before the first step each is reported") {
  Job one;
  Change first = committed({{"proposed", 30}, {"ready", 5}, {"asked", 5}, {"boundary", 2}});
  Change second = committed({{"proposed", 3}, {"ready", 2}, {"asked", 2}, {"boundary", 1}});
  second.decision.id = 6;
  one.pause.begin(first);
  one.pause.begin(second);
  REQUIRE(one.reports.size() == 1);
  CHECK(one.reports[0].decision == 5);
  CHECK(one.reports[0].result == "committed");
  wire::Step step;
  step.step = 13;
  one.pause.stepped(step);
  REQUIRE(one.reports.size() == 2);
  CHECK(one.reports[1].decision == 6);
  CHECK(rounded(one.reports[1].phases_ms.at("boundary")) == 1000);
}
