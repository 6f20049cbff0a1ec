#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "launcher/node/directory.hpp"
#include "planner/core/error.hpp"

using namespace espalier;
using namespace espalier::launcher;
namespace fs = std::filesystem;

namespace {

// A node's /tmp, and in it the directory of job 77 with that of generation 3.
struct Node {
  fs::path base = fs::temp_directory_path() / ("directory-test-" + std::to_string(::getpid()));
  fs::path job = base / ("espalier-" + std::to_string(::getuid()) + "-77-0-0123abcd");
  fs::path generation = job / "g3";
  Node() { fs::create_directories(base); }
  ~Node() { fs::remove_all(base); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
};

}  // namespace

TEST_CASE("what a generation's daemon uses on a node stays there when the keeper of an extension leaves it") {
  const Node node;
  wire::Descriptor daemon = use_generation_directory(node.generation);
  REQUIRE(daemon);
  remove_if_abandoned(node.job);
  remove_of_job(node.base, 77);
  CHECK(fs::exists(node.generation));
  daemon.reset();
  remove_if_abandoned(node.job);
  CHECK(fs::is_empty(node.base));
}

TEST_CASE("two generations use the directory at once, and the last of them to end lets it go") {
  const Node node;
  wire::Descriptor old = use_generation_directory(node.generation);
  const wire::Descriptor next = use_generation_directory(node.job / "g4");
  REQUIRE(next);
  old.reset();
  remove_if_abandoned(node.job);
  CHECK(fs::exists(node.job / "g4"));
}

TEST_CASE("a directory that was removed in between is made again") {
  const Node node;
  use_generation_directory(node.generation);
  remove_if_abandoned(node.job);
  CHECK(!fs::exists(node.job));
  const wire::Descriptor daemon = use_generation_directory(node.generation);
  CHECK(daemon);
  CHECK(fs::exists(node.generation));
}

TEST_CASE("a launcher's own directory is not removed while it lives, and daemons on its node may use it") {
  const Node node;
  const fs::path job = [&] {
    const Directory directory(node.base, 77, 0);
    CHECK(use_generation_directory(directory.generation(1)));
    remove_of_job(node.base, 77);
    const Directory of_another_job(node.base, 78, 0);
    CHECK(fs::exists(directory.path() / "g1"));
    return directory.path();
  }();
  CHECK(!fs::exists(job));
}

TEST_CASE("a launcher removes what one that was killed left behind, and nothing of other users") {
  const Node node;
  use_generation_directory(node.generation);
  const fs::path foreign = node.base / ("espalier-" + std::to_string(::getuid()) + "-79-0-0123abcd");
  fs::create_directory(foreign);
  ::chmod(foreign.c_str(), 0755);  // not as a launcher makes it
  const Directory directory(node.base, 80, 0);
  CHECK(!fs::exists(node.job));
  CHECK(fs::exists(foreign));
}

TEST_CASE("launchers that start on a node in one moment take no directory from one another") {
  const Node node;
  std::atomic<int> refused = 0, removed = 0;
  const auto starts = [&](JobId job) {
    for (unsigned step = 0; step < 300; ++step) try {
        const Directory directory(node.base, job, step);
        if (!fs::exists(directory.path() / "lock")) ++removed;
      } catch (const Error&) {
        ++refused;
      }
  };
  std::thread other(starts, 82);
  starts(83);
  other.join();
  CHECK(refused == 0);
  CHECK(removed == 0);
  CHECK(fs::is_empty(node.base));
}

TEST_CASE("a directory within a generation's that cannot be made is an Error, which a rank server survives") {
  const Node node;
  const wire::Descriptor daemon = use_generation_directory(node.generation);
  CHECK_NOTHROW(make_within_directory(node.generation / "12"));
  CHECK_NOTHROW(make_within_directory(node.generation / "12"));
  CHECK_THROWS_WITH_AS(make_within_directory(node.job / "gone" / "12"), doctest::Contains("No such file"), Error);
  std::ofstream(node.generation / "13") << "a file";
  CHECK_THROWS_AS(make_within_directory(node.generation / "13"), Error);
}

TEST_CASE("one launcher at a time claims a job; one that is gone, and another job, do not count") {
  const Node node;
  Directory first(node.base, 81, 0);
  first.claim_job();
  Directory of_another_job(node.base, 812, 0);
  CHECK_NOTHROW(of_another_job.claim_job());
  {
    Directory second(node.base, 81, 1);
    CHECK_THROWS_WITH_AS(second.claim_job(), doctest::Contains("another elastic step of this job runs"), Error);
  }
  {
    Directory requeued(node.base, 81, 2);
    CHECK_NOTHROW(requeued.claim_job(1));  // the one before may live on, cut off
  }
  // A rank server of an earlier life keeps its directory, and claims nothing.
  const wire::Descriptor daemon = use_generation_directory(node.generation);
  Directory beside_daemon(node.base, 77, 3);
  CHECK_NOTHROW(beside_daemon.claim_job());
}
