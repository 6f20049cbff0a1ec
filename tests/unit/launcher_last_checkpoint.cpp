#include "launcher/job/last_checkpoint.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "launcher/job/state_machine.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

// A job that ends at 10000 s by a time limit of an hour, with steps of a second.
struct Job {
  JobContext context;
  JobPhase phase = JobPhase::running;
  double step = 1, between = 0;
  std::vector<bool> told;
  int asked = 0;

  Job() {
    context.job = context.base = 7;
    context.ends = 10000;
    context.limit_minutes = 60;
  }
  LastCheckpoint::Callbacks callbacks() {
    LastCheckpoint::Callbacks on;
    on.trains = [this] { return trains(phase); };
    on.step_seconds = [this] { return step; };
    on.between_seconds = [this] { return between; };
    on.ends = [this](bool soon) { told.push_back(soon); };
    on.ask = [this] { ++asked; };
    return on;
  }
};

}  // namespace

TEST_CASE("the last checkpoint has two minutes, a tenth of a short time limit, or what steps have been seen to need") {
  CHECK(last_checkpoint_lead(86400, 1, 0) == 120);
  CHECK(last_checkpoint_lead(60, 0.1, 0) == doctest::Approx(6));
  CHECK(last_checkpoint_lead(86400, 100, 0) == 200);
  CHECK(last_checkpoint_lead(86400, 10, 170) == 360);
  CHECK(last_checkpoint_lead(86400, 1, 7200) == 602);  // the job was suspended
  CHECK(last_checkpoint_lead(600, 400, 0) == 300);
}

TEST_CASE("a job that its time limit ends soon is asked for a checkpoint, once") {
  Job one;
  LastCheckpoint last(one.context, one.callbacks());
  last.look(9879);
  CHECK(one.told.empty());
  last.look(9880);
  CHECK(one.told == std::vector<bool>{true});
  last.look(9881);
  last.look(9990);
  CHECK(one.told.size() == 1);
}

TEST_CASE("where nothing trains when the last checkpoint is due, it is asked for as soon as training goes on") {
  Job one;
  LastCheckpoint last(one.context, one.callbacks());
  for (const JobPhase phase : {JobPhase::launching, JobPhase::switching, JobPhase::recovering, JobPhase::ending}) {
    one.phase = phase;
    last.look(9900);
    CHECK(one.told.empty());
  }
  one.phase = JobPhase::acquiring;
  last.look(9901);
  CHECK(one.told == std::vector<bool>{true});
}

TEST_CASE("a time limit that was raised calls the end off, and another checkpoint is asked for before the later one") {
  Job one;
  LastCheckpoint last(one.context, one.callbacks());
  last.look(9900);
  last.seen(13600, 120);
  CHECK(one.told == std::vector<bool>{true, false});
  last.look(9950);
  CHECK(one.told.size() == 2);
  last.look(13500);
  CHECK(one.told == std::vector<bool>{true, false, true});
  last.seen(0, 0);  // it has none any more
  last.look(20000);
  CHECK(one.told == std::vector<bool>{true, false, true, false});
}

TEST_CASE("a time limit that was lowered counts, also where its end is already over") {
  Job one;
  LastCheckpoint last(one.context, one.callbacks());
  last.look(7000);
  last.seen(6940, 9);
  last.look(7001);
  CHECK(one.told == std::vector<bool>{true});
  last.seen(6940, 9);
  last.look(7002);
  CHECK(one.told.size() == 1);
}

TEST_CASE("a movable job and one without a time limit are asked for no last checkpoint") {
  Job one;
  SUBCASE("movable") { one.context.movable = true; }
  SUBCASE("no limit") { one.context.ends = one.context.limit_minutes = 0; }
  LastCheckpoint last(one.context, one.callbacks());
  last.look(1000000);
  last.look(1000100);
  CHECK(one.told.empty());
  CHECK(one.asked == 0);
}

TEST_CASE("Slurm is asked once a minute whether the time limit has changed") {
  Job one;
  LastCheckpoint last(one.context, one.callbacks());
  for (int second = 0; second <= 180; ++second) last.look(7000 + second);
  CHECK(one.asked == 3);
}
