#include "launcher/job/plan_in_place.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "planner/wire/switch_lists.hpp"
#include "tests/unit/launcher_line.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::launcher;
using espalier::launcher::cases::Line;

namespace {

struct Processes final : Ranks {
  bool running() const override { return true; }
  void signal(int) const override {}
};

// Another number of micro-batches keeps every rank's state where it is; stages in the place of replicas do not.
const std::vector<GpuId> kGpus{{"n1", 0}, {"n1", 1}};
const Plan kBefore = uniform_plan(1, 2, 8, 16, 4, kGpus);
const Plan kAfter = uniform_plan(1, 2, 8, 16, 8, kGpus);
const Plan kMoves = uniform_plan(2, 1, 8, 16, 4, kGpus);

// Generation 0 with two ranks on kBefore, and a change under way to `to`.
struct Job {
  plan_files::Folder folder;
  wire::Loop loop;
  JobContext context;
  std::vector<wire::Outcome> reports;
  int answers = 0;
  std::vector<std::shared_ptr<Line>> ranks;
  Directory directory{folder.path(""), 7, 0};
  EarlierGenerations earlier{[](const wire::Keep&) {}};
  StepWatch steps{loop, 60, [](const std::string&) {}};
  Generations generations{loop, context, directory, earlier, callbacks()};
  std::optional<Change> change;
  Pause pause{context, generations, steps, [this](const wire::Outcome& told) { reports.push_back(told); }};
  PlanInPlace in_place{generations, steps, change, pause};

  explicit Job(const Plan& to, int able = 2) {
    context.job = 7;
    generations.start_first(kBefore);
    generations.set_plan(kBefore);
    for (int rank = 0; rank < 2; ++rank) {
      wire::Hello hello;
      hello.rank = rank;
      hello.node = "n1";
      ranks.push_back(std::make_shared<Line>());
      wire::Capabilities can;
      can.in_place = rank < able;
      generations.current()->adopt(ranks.back(), hello, can);
    }
    change.emplace();
    change->decision.id = 5;
    change->decision.plan = to;
    change->decision.release = {20};
  }
  Generations::Callbacks callbacks() {
    Generations::Callbacks on;
    on.holdings = [] { return std::vector<Holding>{{7, "n1", {0, 1}}}; };
    on.environment = [](int) { return std::vector<std::string>(); };
    on.run = [](const WorldRequest&, RanksCallbacks) { return std::make_unique<Processes>(); };
    on.hello = [](const wire::Hello&, bool) {};
    on.switched = [this] { ++answers; };
    return on;
  }
  void answer(std::int64_t step) const {
    for (const auto& rank : ranks) rank->on_frame(wire::to_frame(wire::Switched{step}));
  }
  void taken() {
    in_place.ask();
    answer(12);
    in_place.go_on();
  }
  static wire::Step step(std::int64_t number) {
    wire::Step step;
    step.step = number;
    step.seconds = 0.001;
    return step;
  }
};

}  // namespace

TEST_CASE("a plan can be taken in place if it keeps every rank's place, and all ranks say that they can go on") {
  CHECK(Job(kAfter).in_place.possible());
  CHECK_FALSE(Job(kMoves).in_place.possible());
  CHECK_FALSE(Job(kAfter, 1).in_place.possible());
  Job gone(kAfter);
  gone.generations.drop_current();
  CHECK_FALSE(gone.in_place.possible());
}

TEST_CASE("the ranks are asked for the plan as the same generation, and go on with it once all have answered") {
  Job one(kAfter);
  one.in_place.ask();
  for (const auto& rank : one.ranks) {
    REQUIRE(rank->sent.size() == 1);
    const auto asked = wire::from_frame<wire::Switch>(rank->sent[0]);
    CHECK(asked.next == kAfter);
    CHECK(asked.generation == 0);
  }
  CHECK(one.generations.plan() == kBefore);
  CHECK(one.answers == 0);
  one.answer(12);
  CHECK(one.answers == 1);
  one.in_place.go_on();
  for (const auto& rank : one.ranks) {
    REQUIRE(rank->sent.size() == 2);
    CHECK(wire::from_frame<wire::Resume>(rank->sent[1]).plan == kAfter);
  }
  CHECK(one.generations.plan() == kAfter);
  CHECK(one.change->decision.release == std::vector<JobId>{20});  // the change is still under way
  CHECK(one.reports.empty());
}

TEST_CASE("lists go with the question, and the outcome tells how long they were searched") {
  Job one(kAfter);
  one.in_place.ask();
  CHECK(wire::lists_of(one.ranks[0]->sent[0]).empty());
  Job searched(kBefore);
  searched.change->lists = Lists{"0F0\n", 42};
  CHECK(searched.in_place.possible());
  searched.taken();
  for (const auto& rank : searched.ranks) CHECK(wire::lists_of(rank->sent[0]) == "0F0\n");
  searched.pause.stepped(Job::step(13));
  REQUIRE(searched.reports.size() == 1);
  CHECK(searched.reports.front().phases_ms.at("search") == 42);
}

TEST_CASE("the first step on a plan taken in place reports the change, once") {
  Job one(kAfter);
  one.taken();
  one.pause.stepped(Job::step(13));
  one.pause.stepped(Job::step(14));
  REQUIRE(one.reports.size() == 1);
  const wire::Outcome& told = one.reports.front();
  CHECK(told.decision == 5);
  CHECK(told.result == "committed");
  CHECK(told.step == 12);
  CHECK(told.plan == kAfter);
  std::string phases;
  for (const auto& [phase, ms] : told.phases_ms) phases += phase + " ";
  CHECK(phases == "boundary first_step in_place stand ");
  CHECK_FALSE(one.in_place.take_back("too late"));
}

TEST_CASE("a plan on which the ranks fail before their first step is taken back") {
  Job one(kAfter);
  one.taken();
  CHECK(one.in_place.take_back("rank 0 on n1: no memory"));
  CHECK(one.generations.plan() == kBefore);
  REQUIRE(one.reports.size() == 1);
  CHECK(one.reports.front().result == "aborted: rank 0 on n1: no memory");
  CHECK(one.reports.front().plan == kBefore);
  CHECK_FALSE(one.in_place.take_back("again"));
  one.pause.lost();
  CHECK(one.reports.size() == 1);
}

TEST_CASE("nothing is taken back of a change that the ranks were only asked for, and of one of generation") {
  Job asked(kAfter);
  asked.in_place.ask();
  CHECK_FALSE(asked.in_place.take_back("lost"));
  Job committed(kMoves);
  committed.pause.begin(*committed.change);
  CHECK_FALSE(committed.in_place.take_back("lost"));
  CHECK(asked.reports.empty());
  CHECK(committed.reports.empty());
}
