// Parts of the conformance suite that can be looked at without a worker.
#include <doctest/doctest.h>

#include "launcher/conform/generation.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::launcher;
using conform::Record;

namespace {

wire::Frame step(std::int64_t number, double seconds = 0.1) {
  return {"step", {{"step", number}, {"seconds", seconds}, {"tokens_per_second", 10.0}, {"loss", 1.0}}};
}

void note(Record& record, int rank, std::vector<wire::Frame> list) {
  std::deque<wire::Frame> frames(list.begin(), list.end());
  record.note(rank, frames, {}, {});
  CHECK(frames.empty());
}

}  // namespace

TEST_CASE("the record of a generation notes steps and heartbeats, and keeps other messages until they are asked for") {
  Record record;
  note(record, 0,
       {{"heartbeat", Json::object()}, step(1), {"ready", Json::object()}, step(2), {"done", {{"step", 2}}}});
  CHECK(record.heartbeats(0) == 1);
  CHECK(record.heartbeats(1) == 0);
  CHECK(record.step() == 2);
  CHECK(record.broken() == "");
  CHECK(record.has_said(0, "done"));
  CHECK_FALSE(record.waits(1));
  REQUIRE(record.waits(0));
  CHECK(record.next(0).type == "ready");
  CHECK(record.take(0).type == "ready");
  CHECK(record.take(0).type == "done");
  CHECK_FALSE(record.waits(0));
}

TEST_CASE("the record of a generation says what no worker may send, and keeps to the first such message") {
  SUBCASE("a step that does not follow the one before") {
    Record record;
    note(record, 0, {step(1), step(3), step(1)});
    CHECK(record.broken() == "rank 0: step 3 comes after step 1");
    CHECK(record.step() == 1);
  }
  SUBCASE("ranks that are lost because of it") {
    Record record;
    note(record, 0, {step(1), step(3)});
    record.breaks("the ranks were lost");
    CHECK(record.broken() == "rank 0: step 3 comes after step 1");
  }
  SUBCASE("ranks that are lost before it") {
    Record record;
    record.breaks("the ranks were lost");
    record.breaks("a hello was refused");
    note(record, 0, {step(1), step(3)});
    CHECK(record.broken() == "the ranks were lost");
  }
  SUBCASE("a step of another rank") {
    Record record;
    note(record, 1, {step(1)});
    CHECK(record.broken() == "rank 1: `step` is for rank 0 to send");
  }
  SUBCASE("progress that is no truth value") {
    Record record;
    note(record, 1, {{"heartbeat", {{"progress", true}}}, {"heartbeat", {{"progress", false}}}});
    CHECK(record.broken() == "");
    note(record, 1, {{"heartbeat", {{"progress", 1}}}});
    CHECK(record.broken() == "rank 1: heartbeat.progress: must be true or false");
    CHECK(record.heartbeats(1) == 3);
  }
  SUBCASE("a step that took no time") {
    Record record;
    note(record, 0, {step(1, 0)});
    CHECK(record.broken() == "rank 0: step.seconds: must be above 0");
  }
}

TEST_CASE("a generation whose ranks cannot be started hears of no worker") {
  plan_files::Folder folder;
  conform::Settings settings;
  settings.program = {"/bin/true"};
  settings.launcher = folder.path("espalier-launch");
  std::filesystem::create_symlink("/bin/true", folder.path("espalier-ranks"));  // a rank server that leaves at once
  conform::Stage stage(settings);
  CHECK_THROWS_AS(conform::Generation(stage, 1000), Error);  // on more GPUs than the stage has
  CHECK(stage.door().generations() == 0);
  {
    const conform::Generation generation(stage, 1);
    CHECK(stage.door().generations() == 1);
  }
  CHECK(stage.door().generations() == 0);
}
