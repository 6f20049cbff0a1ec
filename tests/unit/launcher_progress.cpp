// What a worker tells of work that is no step reaches the watch of the steps, from the running generation only.
#include <doctest/doctest.h>

#include <memory>

#include "launcher/world/generations.hpp"
#include "planner/wire/progress_field.hpp"
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
  Directory directory{folder.path(""), 7, 0};
  EarlierGenerations earlier{[](const wire::Keep&) {}};
  int progressed = 0;
  Generations generations{loop, context, directory, earlier, callbacks()};

  Generations::Callbacks callbacks() {
    Generations::Callbacks on;
    on.holdings = [] { return std::vector<Holding>{{7, "n1", {0, 1}}}; };
    on.environment = [](int) { return std::vector<std::string>(); };
    on.run = [](const WorldRequest&, RanksCallbacks) { return std::make_unique<Processes>(); };
    on.hello = [](const wire::Hello&, bool) {};
    on.progressed = [this] { ++progressed; };
    return on;
  }
};

}  // namespace

TEST_CASE(
    "a heartbeat that tells of progress is told on, others are not, nor one of a generation that does not train") {
  Job job;
  const Plan plan = uniform_plan(1, 1, 8, 16, 4, {{"n1", 0}});
  job.generations.start_next(plan, std::nullopt);
  wire::Hello hello;
  hello.node = "n1";
  hello.generation = job.generations.next()->generation();
  const auto rank = std::make_shared<cases::Line>();
  job.generations.next()->adopt(rank, hello);
  rank->on_frame(wire::heartbeat_with_progress());
  CHECK(job.progressed == 0);
  job.generations.succeed(plan, 12);
  rank->on_frame(wire::to_frame(wire::Heartbeat{}));
  CHECK(job.progressed == 0);
  rank->on_frame(wire::heartbeat_with_progress());
  CHECK(job.progressed == 1);
}

TEST_CASE("a launcher of an older version reads a heartbeat that tells of progress as a heartbeat") {
  CHECK_NOTHROW(wire::from_frame<wire::Heartbeat>(wire::heartbeat_with_progress()));
  CHECK_FALSE(wire::tells_progress(wire::to_frame(wire::Heartbeat{})));
  wire::Frame wrong = wire::to_frame(wire::Heartbeat{});
  wrong.body["progress"] = 1;
  CHECK_THROWS_WITH(wire::tells_progress(wrong), "heartbeat.progress: must be true or false");
}
