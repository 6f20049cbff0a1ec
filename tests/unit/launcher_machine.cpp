#include "launcher/job/machine.hpp"

#include <doctest/doctest.h>

#include "planner/core/json.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Job {
  wire::Loop loop;
  std::string log;
  std::function<void(Action)> also;
  std::unique_ptr<Machine> machine;

  Job() {
    Machine::Callbacks on;
    on.leaves = [this](const Row& row, const std::string& why) {
      log += to_string(machine->phase()) + " " + to_string(row.on) + (why.empty() ? "" : " (" + why + ")") + ": ";
    };
    on.enters = [this](const Row&) { log += to_string(machine->phase()) + " "; };
    on.perform = [this](Action action) {
      log += to_string(action) + " ";
      if (also) also(action);
    };
    on.settles = [this] { log += "settled\n"; };
    on.quiet = [this] { log += "quiet\n"; };
    machine = std::make_unique<Machine>(loop, std::move(on));
  }
  void run() {
    loop.defer([this] { loop.stop(); });
    loop.run();
  }
};

}  // namespace

TEST_CASE("an event is processed at a turn of its own, and then a quiet machine says so") {
  Job job;
  job.machine->raise(Event::world_ready);
  CHECK(job.log.empty());
  CHECK_FALSE(job.machine->quiet());
  job.run();
  CHECK(job.log == "launching world_ready: running start_training settled\nquiet\n");
  CHECK(job.machine->quiet());
}

TEST_CASE("an event that means nothing in its phase changes nothing") {
  Job job;
  job.machine->raise(Event::next_ready);
  job.run();
  CHECK(job.log.empty());
  CHECK(job.machine->phase() == JobPhase::launching);
}

TEST_CASE("after forget_answers() the answers that wait to be handled do not count for the next request") {
  Job job;
  job.machine->raise(Event::world_ready);
  job.run();
  job.also = [&](Action action) {
    if (action == Action::ask_in_place) job.machine->forget_answers();
  };
  job.log.clear();
  job.machine->raise(Event::propose_in_place);
  job.machine->raise(Event::old_stands);
  job.machine->raise(Event::old_switched);
  job.run();
  CHECK(job.machine->phase() == JobPhase::replanning);
  job.machine->raise(Event::old_switched);
  job.run();
  CHECK(job.machine->phase() == JobPhase::running);
}

TEST_CASE("an event that an action raises comes after those that wait") {
  Job job;
  job.machine->raise(Event::world_ready);
  job.run();
  job.log.clear();
  job.also = [&](Action action) {
    if (action == Action::start_next) job.machine->raise(Event::next_failed, "no ranks");
  };
  job.machine->raise(Event::propose_direct);
  job.machine->raise(Event::next_ready);
  job.run();
  job.run();
  CHECK(job.log.find("running propose_direct: starting start_next settled\nstarting next_ready: ready") == 0);
  CHECK(job.log.find("ready next_failed (no ranks): running abort_next resume_old") != std::string::npos);
}

TEST_CASE("what the old generation loses once its state is taken does not drop the next one") {
  Job job;
  using enum Event;
  for (const Event event : {world_ready, propose_direct, next_ready, old_switched}) job.machine->raise(event);
  job.run();
  REQUIRE(job.machine->phase() == JobPhase::switching);
  job.also = [&](Action action) {
    if (action == Action::commit) job.machine->forget_old();
  };
  job.machine->raise(next_loaded);
  SUBCASE("its ranks") {
    job.machine->raise(current_lost, "a rank", true);
    job.machine->raise(current_failed, "the program", true);
    job.run();
    CHECK(job.machine->phase() == JobPhase::committed);
  }
  SUBCASE("but what the next one uses, too") {
    job.machine->raise(current_lost, "an extension");
    job.run();
    CHECK(job.machine->phase() == JobPhase::recovering);
  }
}

TEST_CASE("what a generation raised before it was dropped is forgotten, and the launcher's own failure is not") {
  Job job;
  job.machine->raise(Event::world_ready);
  job.run();
  job.log.clear();
  SUBCASE("the running one") {
    job.machine->raise(Event::current_lost, "a rank", true);
    job.machine->raise(Event::current_failed, "the program", true);
    job.machine->raise(Event::current_finished);
    job.machine->forget_current();
    job.run();
    CHECK(job.log.empty());
    job.machine->raise(Event::current_failed, "the launcher");
    job.machine->forget_current();
    job.run();
    CHECK(job.machine->phase() == JobPhase::ending);
  }
  SUBCASE("the next one") {
    job.machine->raise(Event::propose_direct);
    job.run();
    job.machine->raise(Event::next_ready);
    job.machine->raise(Event::notice_breaks, "a notice");
    job.machine->forget_next();
    job.run();
    CHECK(job.log.find("next_ready") == std::string::npos);
    CHECK(job.machine->phase() == JobPhase::running);
  }
}
