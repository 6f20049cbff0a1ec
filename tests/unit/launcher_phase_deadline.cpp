#include "launcher/job/phase_deadline.hpp"

#include <doctest/doctest.h>

#include "launcher/world/served_ranks.hpp"
#include "launcher/world/world.hpp"

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
  job.run(std::chrono::milliseconds(1500));  // rank servers that are late are told of first
  CHECK(job.log.empty());
}

TEST_CASE("a new phase ends the time of the one before, and training has no limit") {
  Job job;
  PhaseDeadline::Situation now;
  now.attempts = now.loads = true;
  job.deadline.set(JobPhase::recovering, now);
  job.deadline.set(JobPhase::running, {});
  job.run(std::chrono::milliseconds(30));
  CHECK(job.log.empty());
  job.deadline.set(JobPhase::recovering, {});  // no attempt is under way
  job.run(std::chrono::milliseconds(30));
  CHECK(job.log.empty());
}

namespace {

// Two ranks, whose servers are told of by the test. Its phase and its servers have the same limit of 1 s.
struct Attempt {
  Job job;
  std::set<GpuId> absent;
  ServedRanks* ranks = nullptr;
  std::unique_ptr<World> world;

  Attempt() {
    job.config.start_seconds = 1;
    WorldRequest request;
    request.generation = 3;
    request.gpus = {{"n1", 0}, {"n2", 0}};
    request.holdings = {{10, "n1", {0}}, {10, "n2", {0}}};
    request.program = {"train"};
    const auto start = [this](const WorldRequest& wanted, RanksCallbacks callbacks) {
      ServedRanks::Links links{[](const ServerId&, const std::string&) {}, [] {}};
      auto served = std::make_unique<ServedRanks>(job.loop, wanted, std::chrono::seconds(job.config.start_seconds),
                                                  std::move(links), std::move(callbacks));
      ranks = served.get();
      return served;
    };
    WorldCallbacks on;
    on.lost = [this](const Loss& loss) {
      job.log += "lost: " + loss.why + "\n";
      absent = loss.absent;
    };
    world = std::make_unique<World>(job.loop, request, start, std::move(on));
  }
};

}  // namespace

TEST_CASE("a rank server that does not come is told of before the time of the phase is over") {
  for (const JobPhase phase : {JobPhase::recovering, JobPhase::starting}) {
    Attempt attempt;
    PhaseDeadline::Situation now;
    now.attempts = true;
    attempt.job.deadline.set(phase, now);
    attempt.ranks->came({"n1", 10});
    attempt.job.run();
    CHECK(attempt.job.log.find("lost: the rank server of job 10 on n2 has not come within 1 s\nnext_failed: ") == 0);
    CHECK(attempt.absent == std::set<GpuId>{{"n2", 0}});
  }
}
