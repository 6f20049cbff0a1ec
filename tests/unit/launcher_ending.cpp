#include "launcher/job/ending.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Job {
  wire::Loop loop;
  bool gave_back = false, left = false;
  std::string log;
  Ending ending{loop,
                {[this] { return gave_back; }, [this] { log += "leave "; }, [this] { return left; },
                 [this] {
                   log += "stop ";
                   loop.stop();
                 }}};
};

}  // namespace

TEST_CASE("the job's code is that of its program, of its last loss, or of a signal") {
  Job job;
  job.ending.generation_lost(9);
  job.ending.fails();
  CHECK(job.ending.code() == 9);
  Job failed;
  failed.ending.fails();
  CHECK(failed.ending.code() == 1);
  Job done;
  done.ending.finished(3);
  done.ending.launcher_failed();
  CHECK(done.ending.code() == 3);
  Job cancelled;
  cancelled.ending.terminated();
  CHECK(cancelled.ending.by_signal());
  CHECK(cancelled.ending.code() == 143);
}

TEST_CASE("the end waits for what was lent, for the last generation and for the rank servers") {
  Job job;
  job.ending.await(std::chrono::seconds(60));
  const auto back = job.loop.after(std::chrono::milliseconds(30), [&] { job.gave_back = true; });
  const auto gone = job.loop.after(std::chrono::milliseconds(80), [&] {
    CHECK(job.log.empty());
    job.ending.world_gone();
  });
  const auto left = job.loop.after(std::chrono::milliseconds(200), [&] { job.left = true; });
  const auto limit = job.loop.after(std::chrono::seconds(60), [&] { job.loop.stop(); });
  job.loop.run();
  CHECK(job.log == "leave stop ");
}

TEST_CASE("rank servers that do not end hold the job up for a limited time only") {
  Job job;
  job.gave_back = true;
  job.ending.world_gone();
  job.ending.await({});
  const auto limit = job.loop.after(std::chrono::seconds(60), [&] { job.loop.stop(); });
  job.loop.run();
  CHECK(job.log == "leave stop ");
}
