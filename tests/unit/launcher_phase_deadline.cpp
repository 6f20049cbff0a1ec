#include "launcher/job/phase_deadline.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Job {
  wire::Loop loop;
  wire::Config config;
  std::string log;
  bool everyone = false;
  PhaseDeadline deadline{loop,
                         config,
                         {[this](Event event, const std::string& why) {
                            log += to_string(event) + ": " + why + "\n";
                            loop.stop();
                          },
                          [this] { return everyone; }}};
  Job() { config.start_seconds = config.hang_seconds = config.switch_seconds = 0; }
  void run(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    const auto end = loop.after(limit, [this] { loop.stop(); });
    loop.run();
  }
};

}  // namespace

TEST_CASE("a phase that takes too long is told by its own event") {
  Job job;
  job.deadline.set(JobPhase::starting, {});
  job.run();
  CHECK(job.log == "next_failed: the next generation was not ready within 0 s\n");
  job.log.clear();
  job.deadline.set(JobPhase::restarting, {});
  job.run();
  CHECK(job.log == "current_lost: the old generation has ended, and the next one was not ready in time\n");
  job.log.clear();
  PhaseDeadline::Situation now;
  now.attempts = true;
  job.deadline.set(JobPhase::recovering, now);
  job.run();
  CHECK(job.log == "next_failed: the next generation was not ready in time\n");
  job.log.clear();
  now.loads = true;
  job.deadline.set(JobPhase::recovering, now);
  job.run();
  CHECK(job.log == "next_failed: the state was not there within 0 s\n");
}

TEST_CASE("workers that are all there may read a checkpoint for longer") {
  Job job;
  job.config.hang_seconds = 3600;
  job.everyone = true;
  job.deadline.set(JobPhase::restarting, {});
  job.run(std::chrono::milliseconds(30));
  CHECK(job.log.empty());
}

TEST_CASE("a new phase ends the time of the one before, and training has no limit") {
  Job job;
  job.deadline.set(JobPhase::starting, {});
  job.deadline.set(JobPhase::running, {});
  job.run(std::chrono::milliseconds(30));
  CHECK(job.log.empty());
  job.deadline.set(JobPhase::recovering, {});  // no attempt is under way
  job.run(std::chrono::milliseconds(30));
  CHECK(job.log.empty());
}
