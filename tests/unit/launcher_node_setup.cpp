#include "launcher/world/server/node_setup.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>

#include "planner/core/error.hpp"
#include "tests/unit/plan_files.hpp"

namespace espalier::launcher {
namespace {

using Variables = std::vector<std::string>;

// A setup of these shell lines that has ended, or was given up.
struct Run {
  explicit Run(const std::string& lines, std::chrono::seconds limit = std::chrono::seconds(60)) {
    const std::string program = folder.write("setup.sh", "#!/bin/sh\n" + lines + "\n");
    ::chmod(program.c_str(), 0755);
    wire::Loop loop;
    const NodeSetup setup(
        loop, program, {"PATH=/usr/bin:/bin", "OF_THE_NODE=n1"}, limit,
        {[&] { ready = true, loop.stop(); }, [&](const std::string& text) { why = text, loop.stop(); }});
    const auto late = loop.after(std::chrono::seconds(100), [&] { loop.stop(); });
    loop.run();
    result = setup.changes().applied({"A=1", "B=2"});
  }
  plan_files::Folder folder;
  bool ready = false;
  std::string why;
  Variables result;
};

}  // namespace

TEST_CASE("exports and unsets of a node setup change the environment, the last word on a name counts") {
  EnvironmentChanges changes;
  CHECK(changes.take("export A=b=c d"));
  CHECK(changes.take("export NEW="));
  CHECK(changes.take("unset B"));
  CHECK(changes.take("export TWICE=1"));
  CHECK(changes.take("export TWICE=2"));
  CHECK(changes.take("export GONE=1"));
  CHECK(changes.take("unset GONE"));
  CHECK(changes.take("unset BACK"));
  CHECK(changes.take("export BACK=1"));
  CHECK_FALSE(changes.take("print hello"));
  CHECK_FALSE(changes.take("exported A=1"));
  CHECK_FALSE(changes.take("export"));
  CHECK_FALSE(changes.take(""));
  CHECK(changes.has("GONE"));
  CHECK_FALSE(changes.has("C"));
  CHECK(changes.applied({"A=1", "B=2", "C=3", "GONE=0"}) == Variables{"C=3", "A=b=c d", "BACK=1", "NEW=", "TWICE=2"});
}

TEST_CASE("each wrong line of a node setup is refused by what is wrong") {
  EnvironmentChanges changes;
  CHECK_THROWS_WITH_AS(changes.take("export A"), "\"export A\" has no value", Error);
  CHECK_THROWS_WITH_AS(changes.take("export =1"), "\"\" is not the name of a variable", Error);
  CHECK_THROWS_WITH_AS(changes.take("export 1A=1"), "\"1A\" is not the name of a variable", Error);
  CHECK_THROWS_WITH_AS(changes.take("unset A B"), "\"A B\" is not the name of a variable", Error);
  for (const std::string name : {"ESPALIER_TOKEN", "SLURM_JOB_ID", "SLURMD_NODENAME", "PMIX_RANK",
                                 "OMPI_COMM_WORLD_RANK", "CUDA_VISIBLE_DEVICES", "RANK", "MASTER_ADDR"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(changes.take("export " + name + "=1"),
                         (name + " is set by the launcher; leave it as it is").c_str(), Error);
    CHECK_THROWS_AS(changes.take("unset " + name), Error);
  }
  const std::string half(600 << 10, 'x');
  CHECK(changes.take("export A=" + half));
  CHECK_THROWS_WITH_AS(changes.take("export A=" + half), "its exports are longer than 1 MiB", Error);
}

TEST_CASE("a node setup that ends well is ready, with what it printed, also in a last line without an end") {
  const Run run("echo something else\necho export A=$OF_THE_NODE\nprintf 'unset B'");
  CHECK(run.ready);
  CHECK(run.why.empty());
  CHECK(run.result == Variables{"A=n1"});
}

TEST_CASE("a node setup that fails, hangs or says something wrong says why") {
  CHECK(Run("exit 7").why.ends_with("setup.sh: it ended with exit code 7"));
  CHECK(Run("kill -9 $$").why.ends_with("setup.sh: it ended with exit code 137"));
  CHECK(Run("sleep 90 & wait", std::chrono::seconds(1))
            .why.ends_with("setup.sh: it took longer than 1 s (launch.node_setup_seconds)"));
  CHECK(Run("echo export SLURM_JOB_ID=1; sleep 90")
            .why.ends_with("SLURM_JOB_ID is set by the launcher; leave it as it is"));
  CHECK(Run("head -c 2000000 /dev/zero; sleep 90").why.ends_with("a line of its output is longer than 1 MiB"));
  CHECK_FALSE(Run("exit 7").ready);
}

TEST_CASE("a node setup has its time, without that in which Slurm had the job suspended") {
  plan_files::Folder folder;
  const std::string program = folder.write("setup.sh", "#!/bin/sh\nsleep 2.8\n");
  ::chmod(program.c_str(), 0755);
  wire::Loop loop;
  std::string why = "it never ended";
  NodeSetup setup(loop, program, {"PATH=/usr/bin:/bin"}, std::chrono::seconds(2),
                  {[&] { why.clear(), loop.stop(); }, [&](const std::string& text) { why = text, loop.stop(); }},
                  {std::chrono::milliseconds(10), std::chrono::milliseconds(200)});
  const auto stands =
      loop.after(std::chrono::milliseconds(50), [] { std::this_thread::sleep_for(std::chrono::milliseconds(2500)); });
  loop.run();
  CHECK(why == "");
}

TEST_CASE("a node setup that is not there or is no program cannot be started") {
  wire::Loop loop;
  CHECK_THROWS_AS(NodeSetup(loop, "/nowhere/setup.sh", {}, std::chrono::seconds(1), {}), Error);
  CHECK_THROWS_AS(NodeSetup(loop, "/etc/passwd", {}, std::chrono::seconds(1), {}), Error);
}

}  // namespace espalier::launcher
