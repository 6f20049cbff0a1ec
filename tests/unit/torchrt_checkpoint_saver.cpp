#include <doctest/doctest.h>

#include <sys/resource.h>

#include <csignal>
#include <thread>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_checkpoint_cases.hpp"
#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/checkpoint/saver.hpp"

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
