#include <doctest/doctest.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <new>
#include <optional>
#include <thread>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_checkpoint_cases.hpp"
#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/checkpoint/saver.hpp"
#include "torchrt/device/unique_fd.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

const TestLayout kLayout = {{1, 3, 1}, {2, 1, 1}, {1, 2, 1}};

CheckpointVote operator+(const CheckpointVote& a, const CheckpointVote& b) {
  return {a.done + b.done, a.failed + b.failed, a.asked + b.asked};
}

// The ranks of a training in one thread. Their votes are added as the executor's agreement adds
// them.
class Ranks {
 public:
  explicit Ranks(Config config, double age = 0)
      : config_(std::move(config)), ranks_(filled_ranks(config_.model, kLayout, *device_)) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      CheckpointSaver::Setting setting;
      setting.config = &config_;
      setting.rank = static_cast<int>(r);
      setting.ranks = static_cast<int>(ranks_.size());
      setting.tell = [this, r](const std::string& what) {
        const std::lock_guard lock(mutex_);
        said_ += "rank " + std::to_string(r) + ": " + what + "\n";
      };
      setting.age = age;
      setting.time = [this] { return now; };
      savers_.push_back(std::make_unique<CheckpointSaver>(std::move(setting)));
    }
  }

  void step(std::int64_t step) {
    agree();
    for (std::size_t r = 0; r < savers_.size(); ++r)
      savers_[r]->boundary(
          step, [&](Snapshot& snapshot) { take_snapshot(ranks_[r].units(), ranks_[r].layout, *device_, snapshot); });
  }
  void ask(std::size_t rank) { savers_[rank]->ask(); }
  void agree() {
    CheckpointVote sum;
    for (const auto& saver : savers_) sum = sum + saver->vote();
    for (const auto& saver : savers_) saver->agreed(sum);
  }
  // Runs steps without a boundary until `done`, at most ten seconds.
  template <class Condition>
  bool until(const Condition& done) {
    for (int i = 0; i < 10'000 && !done(); ++i) {
      agree();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return done();
  }
  bool until_whole(std::int64_t step) {
    return until([&] { return savers_.front()->has(step); });  // true after the clearing up
  }
  bool until_said(const std::string& what) {
    const bool heard = until([&] { return said().find(what) != std::string::npos; });
    settle();
    return heard;
  }
  bool last_is_missing(std::int64_t step) const {
    const bool missing = savers_.front()->last_is_missing(step);
    for (const auto& saver : savers_) CHECK(saver->last_is_missing(step) == missing);
    return missing;
  }
  std::string said() const {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  double now = 5000;  // seconds, of all savers
  std::vector<std::int64_t> steps() const { return checkpoint_steps(config_.checkpoint.directory); }

 private:
  void settle() {  // lets rank 0 clear up
    for (int i = 0; i < 50; ++i) {
      agree();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const std::unique_ptr<Device> device_ = make_cpu_device();
  Config config_;
  std::vector<TestRank> ranks_;
  std::vector<std::unique_ptr<CheckpointSaver>> savers_;
  mutable std::mutex mutex_;
  std::string said_;
};

std::size_t entries(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a checkpoint is written beside the steps that follow, the oldest ones go") {
  const TestFolder folder;
  Ranks ranks(checkpoint_config(folder.path(), tiny_model("gpt2", true)));
  for (std::int64_t step = 1; step <= 9; ++step) ranks.step(step);
  CHECK(ranks.steps().empty());
  for (std::int64_t step = 10; step <= 50; step += 10) {
    ranks.step(step);
    CHECK(ranks.until_whole(step));
  }
  CHECK(ranks.steps() == std::vector<std::int64_t>{50, 40});
  CHECK(entries(folder.path()) == 2);
  CHECK(ranks.said().empty());
  for (const std::int64_t step : ranks.steps()) CheckpointReader(checkpoint_folder(folder.path(), step)).verify(0, 1);
}

TEST_CASE("a checkpoint that one rank asks for is written at the next boundary, once, as soon as none is under way") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  Ranks ranks(config);
  ranks.step(1);
  ranks.ask(1);
  ranks.step(2);
  CHECK(ranks.until_whole(2));
  ranks.step(3);
  CHECK(ranks.steps() == std::vector<std::int64_t>{2});
  ranks.step(10);
  ranks.ask(0);
  ranks.step(11);  // the checkpoint of step 10 is still being written
  CHECK(ranks.until_whole(10));
  ranks.step(12);
  CHECK(ranks.until_whole(12));
  CHECK(ranks.said().empty());
}

TEST_CASE("a checkpoint that is asked for where there is no place for one is none") {
  const TestFolder folder;
  Config config = checkpoint_config("", tiny_model("gpt2", true));
  Ranks ranks(config);
  ranks.ask(0);
  ranks.step(1);
  ranks.step(2);
  CHECK(ranks.said().empty());
}

TEST_CASE("checkpoints are begun checkpoint.minutes apart though no step is due") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  config.checkpoint.every = 0;
  config.checkpoint.minutes = 2;
  Ranks ranks(config);
  ranks.now += 119;
  ranks.step(1);
  CHECK(ranks.steps().empty());
  ranks.now += 2;
  ranks.step(2);
  CHECK(ranks.until_whole(2));
  ranks.now += 119;  // since the one before was begun
  ranks.step(3);
  ranks.now += 1;
  ranks.step(4);
  CHECK(ranks.until_whole(4));
  CHECK(ranks.steps() == std::vector<std::int64_t>{4, 2});
}

TEST_CASE("a checkpoint of every step counts for checkpoint.minutes") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  config.checkpoint.minutes = 2;
  Ranks ranks(config);
  ranks.now += 100;
  ranks.step(10);
  CHECK(ranks.until_whole(10));
  ranks.now += 100;
  ranks.step(11);
  ranks.step(12);
  CHECK(ranks.steps() == std::vector<std::int64_t>{10});
}

TEST_CASE("checkpoint.minutes are counted from the checkpoint that is on disk at the start") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  config.checkpoint.every = 0;
  config.checkpoint.minutes = 2;
  Ranks ranks(config, 90);
  ranks.now += 29;
  ranks.step(1);
  CHECK(ranks.steps().empty());
  ranks.now += 1;
  ranks.step(2);
  CHECK(ranks.until_whole(2));
}

TEST_CASE("checkpoint.minutes = 0 asks for none") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  config.checkpoint.every = 0;
  config.checkpoint.minutes = 0;
  Ranks ranks(config);
  ranks.now += 1e9;
  ranks.step(1);
  ranks.step(2);
  CHECK(ranks.steps().empty());
}

TEST_CASE("the last step has a checkpoint though none is due") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  config.checkpoint.every = 0;
  config.training.steps = 7;
  Ranks ranks(config);
  for (std::int64_t step = 1; step <= 7; ++step) ranks.step(step);
  CHECK(ranks.until_whole(7));
}

TEST_CASE("the last checkpoint waits for the one before, without a word") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  config.training.steps = 11;
  Ranks ranks(config);
  ranks.step(10);
  ranks.step(11);
  CHECK(ranks.until_whole(10));
  CHECK(ranks.last_is_missing(11));
  ranks.step(11);
  CHECK(ranks.until_whole(11));
  CHECK_FALSE(ranks.last_is_missing(11));
  CHECK(ranks.said().empty());
}

TEST_CASE("a checkpoint that is due while one is being written is left out, by one voice") {
  const TestFolder folder;
  Ranks ranks(checkpoint_config(folder.path(), tiny_model("gpt2", true)));
  ranks.step(10);
  ranks.step(20);  // one agreement cannot both write and commit
  CHECK(ranks.said() ==
        "rank 0: checkpoint of step 20: left out, that of step 10 is still being written; raise checkpoint.every\n");
  CHECK(ranks.until_whole(10));
  CHECK(ranks.steps() == std::vector<std::int64_t>{10});
}

TEST_CASE("a part that cannot be written is told, the last good checkpoint stays, the next one is written") {
  const TestFolder folder;
  Ranks ranks(checkpoint_config(folder.path(), tiny_model("gpt2", true)));
  ranks.step(10);
  REQUIRE(ranks.until_whole(10));

  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &tight);
  ranks.step(20);
  const bool told = ranks.until_said("checkpoint of step 20: ");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  CHECK(told);
  CHECK_MESSAGE(
      ranks.said().find("cannot be written: File too large; training goes on, the last good one is of step 10") !=
          std::string::npos,
      ranks.said());
  CHECK(ranks.steps() == std::vector<std::int64_t>{10});
  CHECK(ranks.until([&] { return entries(folder.path()) == 1; }));  // the half-written one is removed
  CheckpointReader(checkpoint_folder(folder.path(), 10)).verify(0, 1);

  ranks.step(30);
  CHECK(ranks.until_whole(30));
  CHECK(ranks.steps() == std::vector<std::int64_t>{30, 10});
}

TEST_CASE("a damaged checkpoint is replaced by a good one of the same step") {
  const TestFolder folder;
  const Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  write_checkpoint(config, kLayout, 10);
  std::filesystem::remove(checkpoint_folder(folder.path(), 10) + "/manifest.json");
  Ranks ranks(config);
  ranks.step(10);
  CHECK(ranks.until([&] { return std::filesystem::exists(checkpoint_folder(folder.path(), 10) + "/manifest.json"); }));
  CHECK(ranks.until([&] { return entries(folder.path()) == 1; }));
  CheckpointReader(checkpoint_folder(folder.path(), 10)).verify(0, 1);
}

TEST_CASE("damaged checkpoints do not count among those that are kept") {
  const TestFolder folder;
  const Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  for (const std::int64_t step : {10, 20, 30, 40, 60}) write_checkpoint(config, kLayout, step);
  std::filesystem::create_directory(folder / "step-50.g0.tmp");
  std::filesystem::create_directory(folder / "something-else");
  prune_checkpoints(folder.path(), 40, 2, 0, {30});
  CHECK(checkpoint_steps(folder.path()) == std::vector<std::int64_t>{60, 40, 20});
  CHECK_FALSE(std::filesystem::exists(folder / "step-50.g0.tmp"));
  CHECK(std::filesystem::exists(folder / "something-else"));
}

TEST_CASE("a thread of an old generation removes no unfinished checkpoint of the generation after it") {
  const TestFolder folder;
  write_checkpoint(checkpoint_config(folder.path(), tiny_model("gpt2", true)), kLayout, 40);
  const std::vector<std::string> abandoned = {"step-50.g1.tmp", "step-50.g2.tmp",    "step-50.g2.a1.tmp",
                                              "step-40.g3.tmp", "step-30.g3.a1.tmp", "step-50.g1.tmp.replaced.tmp",
                                              "step-50.gx.tmp", "step-50.tmp"};
  const std::vector<std::string> under_way = {"step-50.g3.tmp", "step-50.g12.a1.tmp", "step-41.g3.tmp.replaced.tmp"};
  for (const auto& names : {abandoned, under_way})
    for (const std::string& name : names) std::filesystem::create_directory(folder / name);
  prune_checkpoints(folder.path(), 40, 2, 2, {});
  for (const std::string& name : abandoned) CHECK_MESSAGE(!std::filesystem::exists(folder / name), name);
  for (const std::string& name : under_way) CHECK_MESSAGE(std::filesystem::exists(folder / name), name);
}

TEST_CASE("a checkpoint that lost a file while it was written does not become a whole one") {
  const TestFolder folder;
  const Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  write_checkpoint(config, kLayout, 10);
  // As before the commit: its parts, and what the commit would find.
  const std::string whole = checkpoint_folder(folder.path(), 20), unfinished = unfinished_folder(folder.path(), 20, 0);
  std::filesystem::create_directory(unfinished);
  Manifest part = manifest_from(text_of_file(checkpoint_folder(folder.path(), 10) + "/" + kManifestFile), "it");
  std::ofstream(unfinished + "/" + part_manifest(0)) << to_text(part);
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint_folder(folder.path(), 10)))
    std::filesystem::copy(entry.path(), unfinished);
  std::filesystem::remove(unfinished + "/" + part_file(1));
  WriteProgress progress;
  CHECK_THROWS_WITH_AS(commit_checkpoint(unfinished, whole, 1, {}, progress),
                       doctest::Contains("rank-1.safetensors: was removed before the checkpoint was whole"), Error);
  CHECK_FALSE(std::filesystem::exists(whole));
}

TEST_CASE("all ranks must be done before anything is committed, and one failure is everyone's") {
  CheckpointAgreement agreement(3);
  agreement.begin(5);
  agreement.advance({2, 0});
  CHECK(agreement.phase() == CheckpointPhase::writing);
  agreement.advance({3, 0});
  CHECK(agreement.phase() == CheckpointPhase::committing);
  agreement.advance({0, 0});
  CHECK(agreement.phase() == CheckpointPhase::committing);
  agreement.advance({1, 0});
  CHECK(agreement.phase() == CheckpointPhase::idle);
  CHECK(agreement.committed());
  agreement.advance({0, 0});
  CHECK_FALSE(agreement.committed());

  agreement.begin(6);
  agreement.advance({3, 1});
  CHECK(agreement.phase() == CheckpointPhase::clearing);
  agreement.advance({1, 0});
  CHECK(agreement.phase() == CheckpointPhase::idle);

  agreement.begin(7);
  agreement.advance({3, 0});
  agreement.advance({1, 1});  // the manifest could not be written
  CHECK(agreement.phase() == CheckpointPhase::clearing);
  CHECK_FALSE(agreement.committed());
}

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
