#include "launcher/slurm/absent_keeper.hpp"

#include <doctest/doctest.h>

#include "launcher/slurm/acquisition.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

// No extension is submitted here.
struct Job {
  wire::Loop loop;
  BlockingThread slurm{loop};
  JobContext context;
  std::string failed;
  std::optional<SlurmJob> seen;  // as Slurm would say
  ExtensionJobs jobs{loop, slurm, context, callbacks()};
  Grants grants;

  static ExtensionJobs::Callbacks callbacks() {
    ExtensionJobs::Callbacks on;
    on.leaves = [](JobId) {};
    return on;
  }
  void wait() {
    context.config.acquire_seconds = 1;
    Acquisition acquisition(loop, slurm, context, {"HOME=/", "ESPALIER_LAUNCHER=n1:20001"}, jobs,
                            {[] {},
                             [this](const std::string& why) {
                               failed = why;
                               loop.stop();
                             }},
                            [this](JobId) { return seen; });
    acquisition.begin({}, grants);
    const auto limit = loop.after(std::chrono::seconds(30), [this] { loop.stop(); });
    loop.run();
  }
};

}  // namespace

TEST_CASE("a keeper finds its launcher by a variable, and where that lacks there is no place") {
  CHECK(place_in({"HOME=/", "ESPALIER_LAUNCHER=n1:20001"}) == "n1:20001");
  CHECK(place_in({"HOME=/"}).empty());
  CHECK(place_in({}).empty());
}

TEST_CASE("an extension that Slurm started and whose keeper did not come: the ports are named, not Slurm") {
  Job job;
  ExtensionRequest request;
  request.node = "n2";
  request.gpus = 1;
  job.jobs.add(20, request);
  job.jobs.runs(20, {20, "n2", {0}});
  job.wait();
  CHECK(job.failed ==
        "Slurm started job 20 on n2, and its keeper did not reach this launcher at n1:20001 within 1 s: let nodes "
        "connect to TCP ports 20000 to 31999 of each other, and name a network between them in launch.network of "
        "espalier.toml");
}

TEST_CASE("an extension whose node still boots does not run yet, and no port is blamed for its keeper") {
  Job job;
  ExtensionRequest request;
  request.node = "n2";
  request.gpus = 1;
  job.jobs.add(20, request);
  job.seen = SlurmJob{};
  job.seen->state = SlurmJob::State::running;
  job.seen->holdings = {{20, "n2", {0}}};
  SUBCASE("it boots until the time is over") {
    job.seen->configuring = true;
    job.wait();
    CHECK(job.jobs.granted().empty());
    CHECK(job.failed ==
          "Slurm gave job 20 its GPUs on n2, and after 1 s that node was still booting, or a Prolog ran on it");
  }
  SUBCASE("it has booted") {
    job.wait();
    CHECK(job.jobs.granted().size() == 1);
    CHECK(job.failed.find("its keeper did not reach this launcher") != std::string::npos);
  }
}
