// What stands in the way of a checkpoint: a disk that does not answer, no memory, no thread, a change of the plan.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <optional>
#include <thread>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_checkpoint_cases.hpp"
#include "torchrt/checkpoint/saver.hpp"
#include "torchrt/device/unique_fd.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// A rank alone whose write of a file of the checkpoint of step 10 stands still until release(), by a clock that the
// test sets.
class StuckRank {
 public:
  explicit StuckRank(const std::string& file = part_file(0)) {
    // A process that opens a pipe for writing waits for a reader. The second name lets the test release the thread.
    std::filesystem::create_directories(unfinished);
    REQUIRE(::mkfifo((unfinished + "/" + file).c_str(), 0600) == 0);
    REQUIRE(::link((unfinished + "/" + file).c_str(), other_.c_str()) == 0);
  }
  ~StuckRank() { release(); }
  CheckpointSaver::Setting setting() {
    CheckpointSaver::Setting setting;
    setting.config = &config;
    setting.tell = [this](const std::string& what) { said += what + "\n"; };
    setting.time = [this] { return now; };
    return setting;
  }
  // Runs steps without a boundary until `done`, at most ten seconds.
  template <class Condition>
  static bool until(CheckpointSaver& saver, const Condition& done) {
    for (int i = 0; i < 10'000 && !done(); ++i) {
      saver.agreed(saver.vote());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return done();
  }
  // Steps without a boundary, in so many seconds.
  void pass(CheckpointSaver& saver, int seconds) {
    do {
      now += std::min(seconds, 30);
      saver.agreed(saver.vote());
    } while ((seconds -= 30) > 0);
  }
  // The thread goes on. What it has written is read.
  std::size_t release() {
    std::size_t read = 0;
    if (!reader_) reader_.reset(::open(other_.c_str(), O_RDONLY | O_NONBLOCK));
    for (int i = 0; i < 2000 && read < 16; ++i) {  // a header's length and the header
      char bytes[16];
      if (const ssize_t got = ::read(reader_.get(), bytes, sizeof bytes); got > 0)
        read += static_cast<std::size_t>(got);
      else std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return read;
  }

 private:
  TestFolder folder_, elsewhere_;
  const std::string other_ = elsewhere_.path() + "/pipe";
  UniqueFd reader_;

 public:
  const Config config = checkpoint_config(folder_.path(), tiny_model("gpt2", true));
  const std::string directory = folder_.path(), unfinished = unfinished_folder(directory, 10, 0);
  double now = 5000;
  std::string said;
};

std::string host() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

TEST_CASE(
    "a write that stands still beside training is told by rank, host and file, and later checkpoints are written") {
  StuckRank rank;
  CheckpointSaver saver(rank.setting());
  const auto none = [](Snapshot&) {};
  saver.boundary(10, none);
  // Time stands still until the thread waits for the pipe: making the folder counts as getting on.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  saver.agreed(saver.vote());
  rank.pass(saver, 1799);
  CHECK(rank.said.empty());
  rank.pass(saver, 2);
  CHECK(rank.said == "checkpoint of step 10: rank 0 on " + host() + " has not finished writing " + rank.unfinished +
                         "/" + part_file(0) +
                         " and has got no further for 1801 s; it is given up, and the next one that is due is tried; "
                         "look at the file system of checkpoint.directory; there is no good checkpoint yet\n");
  REQUIRE(StuckRank::until(saver, [&] { return !std::filesystem::exists(rank.unfinished); }));
  for (int i = 0; i < 50; ++i) saver.agreed(saver.vote());  // the clearing up has ended
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  saver.agreed(saver.vote());

  // The same step again, e.g. the last one of the training: in a folder of its own.
  saver.boundary(10, none);
  CHECK_FALSE(std::filesystem::exists(rank.unfinished));
  CHECK(StuckRank::until(saver, [&] { return saver.has(10); }));
  CHECK(checkpoint_steps(rank.directory) == std::vector<std::int64_t>{10});
  saver.boundary(20, none);
  CHECK(StuckRank::until(saver, [&] { return saver.has(20); }));

  CHECK(rank.release() == 16);  // the thread that was stuck goes on, and writes nothing that anybody reads
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(checkpoint_steps(rank.directory) == std::vector<std::int64_t>{20, 10});
  CHECK(entries(rank.directory) == 2);
}

TEST_CASE("a commit that stands still beside training is told, again when one is due, and waited for") {
  StuckRank rank(kManifestFile);
  CheckpointSaver saver(rank.setting());
  const auto none = [](Snapshot&) {};
  saver.boundary(10, none);
  const std::string part = rank.unfinished + "/" + part_manifest(0);
  REQUIRE(StuckRank::until(saver, [&] { return std::filesystem::exists(part); }));
  // The part is written, the ranks agree, and the thread waits for the pipe: time stands still until then.
  for (int i = 0; i < 100; ++i) {
    saver.agreed(saver.vote());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(rank.said.empty());
  rank.pass(saver, 1799);
  CHECK(rank.said.empty());
  rank.pass(saver, 2);
  const std::string words = "checkpoint of step 10: rank 0 on " + host() + " has not finished writing " +
                            rank.unfinished + "/" + kManifestFile +
                            " and has got no further for 1801 s; it is waited for; look at the file system of "
                            "checkpoint.directory; there is no good checkpoint yet\n";
  CHECK(rank.said == words);
  saver.agreed(saver.vote());
  CHECK(rank.said == words);  // not at each step
  rank.said.clear();
  saver.boundary(20, none);
  CHECK(rank.said.find("step 10: rank 0 on " + host() + " has not finished writing") != std::string::npos);
  CHECK(checkpoint_steps(rank.directory).empty());
  CHECK(std::filesystem::exists(rank.unfinished));  // nobody touches it meanwhile

  rank.release();
  for (const std::int64_t step : {30, 40}) {  // a pipe cannot be synced, so the commit fails; the next one is good
    saver.boundary(step, none);
    if (StuckRank::until(saver, [&] { return saver.has(step); })) break;
  }
  CHECK(checkpoint_steps(rank.directory).size() == 1);
}

TEST_CASE("time in which the whole process stood still is no time in which a write does") {
  StuckRank rank;
  CheckpointSaver saver(rank.setting());
  saver.boundary(10, [](Snapshot&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // making the folder counts as getting on
  rank.pass(saver, 0);
  rank.pass(saver, 900);
  for (int i = 0; i < 3; ++i) {  // Slurm suspends the job
    rank.now += 7200;
    saver.agreed(saver.vote());
    rank.pass(saver, 60);
  }
  rank.pass(saver, 719);
  CHECK(rank.said.empty());
  rank.pass(saver, 2);
  CHECK_MESSAGE(rank.said.find("has got no further for 1801 s; it is given up") != std::string::npos, rank.said);
}

TEST_CASE("steps that take long by themselves count") {
  StuckRank rank;
  CheckpointSaver saver(rank.setting());
  saver.boundary(10, [](Snapshot&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  rank.pass(saver, 0);
  for (int i = 0; i < 5; ++i) {
    rank.now += 600;
    saver.agreed(saver.vote());
  }
  CHECK_MESSAGE(rank.said.find("has got no further for 1800 s; it is given up") != std::string::npos, rank.said);
}

TEST_CASE("a disk that does not answer is given up, and the training can end") {
  StuckRank rank;
  CheckpointSaver::Setting setting = rank.setting();
  setting.time = {};
  setting.patience = std::chrono::milliseconds(200);
  CheckpointSaver saver(std::move(setting));
  saver.boundary(10, [](Snapshot&) {});
  saver.settle([](const CheckpointVote& vote) { return vote; });
  CHECK(rank.said.find("checkpoint of step 10: rank 0 on " + host() + " has not finished writing " + rank.unfinished) ==
        0);
  CHECK(rank.said.find("there is no good checkpoint yet") != std::string::npos);
  CHECK(checkpoint_steps(rank.directory).empty());
  CHECK_FALSE(std::filesystem::exists(rank.unfinished));
  CHECK(rank.release() == 16);
}

namespace {

// A rank alone, without a training around it.
struct LoneRank {
  LoneRank() {
    CheckpointSaver::Setting setting;
    setting.config = &config;
    setting.tell = [this](const std::string& what) { said += what + "\n"; };
    setting.time = [this] { return now; };
    saver.emplace(std::move(setting));
  }
  const TestFolder folder;
  const Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  double now = 5000;
  std::string said;
  std::optional<CheckpointSaver> saver;
};

// The system makes no thread until this is destroyed: there is no address space for a stack of this size.
class NoThreads {
 public:
  NoThreads() {
    REQUIRE(::pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 60) == 0);
    REQUIRE(::pthread_setattr_default_np(&huge) == 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

}  // namespace

TEST_CASE("a checkpoint that is dropped because others take over is told, one that is whole is not") {
  StuckRank rank;
  CheckpointSaver saver(rank.setting());
  saver.leave();
  CHECK(rank.said.empty());
  saver.boundary(10, [](Snapshot&) {});
  saver.leave();
  CHECK(rank.said ==
        "checkpoint of step 10: dropped, because the plan changes before all of it is on disk; the next one that is "
        "due is written; there is no good checkpoint yet\n");
  LoneRank other;
  other.saver->boundary(10, [](Snapshot&) {});
  REQUIRE(StuckRank::until(*other.saver, [&] { return other.saver->has(10); }));
  other.saver->leave();
  CHECK(other.said.empty());
}

TEST_CASE("what generations before the last one left unfinished is removed beside training") {
  LoneRank rank;
  const std::vector<std::string> names = {"step-10.g0.tmp", "step-20.g1.a1.tmp", "step-30.g2.tmp", "step-40.g3.tmp",
                                          "step-5"};
  for (const std::string& name : names) std::filesystem::create_directory(rank.folder / name);
  std::ofstream(rank.folder / "step-20.g1.a1.tmp/rank-0.json") << "{}";
  const auto left = [&] {
    std::vector<std::string> found;
    for (const std::string& name : names)
      if (std::filesystem::exists(rank.folder / name)) found.push_back(name);
    return found;
  };
  CHECK(unfinished_folders(rank.folder.path(), 3, 100) == std::vector<std::string>{rank.folder / "step-40.g3.tmp"});
  rank.saver->clear_up(unfinished_folders(rank.folder.path(), 0, 2));
  for (int i = 0; i < 10'000 && left().size() > 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(left() == std::vector<std::string>{"step-30.g2.tmp", "step-40.g3.tmp", "step-5"});
  CHECK(rank.said.empty());
}

TEST_CASE("where there is no memory for the copy the checkpoint fails, its memory is given back, the next is written") {
  LoneRank rank;
  std::weak_ptr<void> memory;
  rank.saver->boundary(10, [&](Snapshot& snapshot) {
    const auto pinned = std::make_shared<int>();
    memory = pinned;
    snapshot.memory.emplace_back().pinned = pinned;
    throw std::bad_alloc();
  });
  CHECK(memory.expired());
  CHECK(rank.said == "checkpoint of step 10: rank 0 on " + host() +
                         " has no memory for it; ask Slurm for more (--mem); training goes on, there is no good "
                         "checkpoint yet\n");
  for (int i = 0; i < 50; ++i) {  // lets the rank clear up
    rank.saver->agreed(rank.saver->vote());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  rank.saver->boundary(20, [](Snapshot& snapshot) { CHECK(snapshot.memory.empty()); });
  CHECK(StuckRank::until(*rank.saver, [&] { return rank.saver->has(20); }));
  CHECK(checkpoint_steps(rank.folder.path()) == std::vector<std::int64_t>{20});
}

TEST_CASE("where no thread can be made the checkpoint fails, whatever the thread was for, and the next is written") {
  LoneRank rank;
  const auto none = [](Snapshot&) {};
  {
    const NoThreads limit;
    rank.saver->boundary(10, none);
    rank.saver->settle([](const CheckpointVote& vote) { return vote; });
  }
  CHECK_MESSAGE(rank.said.find("checkpoint of step 10: rank 0 on " + host() + " cannot make a thread: ") == 0,
                rank.said);
  CHECK(rank.said.find("; raise the limit of processes (ulimit -u); training goes on, ") != std::string::npos);
  rank.said.clear();
  rank.saver->boundary(20, none);
  REQUIRE(StuckRank::until(*rank.saver, [&] { return rank.saver->has(20); }));
  CHECK(rank.said.empty());
  CHECK(checkpoint_steps(rank.folder.path()) == std::vector<std::int64_t>{20});
}

TEST_CASE("whoever waits for a checkpoint's end is told that it goes on") {
  StuckRank rank;
  CheckpointSaver::Setting setting = rank.setting();
  setting.time = {};
  setting.patience = std::chrono::milliseconds(400);
  CheckpointSaver saver(std::move(setting));
  saver.boundary(10, [](Snapshot&) {});
  int waits = 0;
  saver.settle([](const CheckpointVote& vote) { return vote; }, [&] { ++waits; });
  CHECK(waits >= 3);
}
