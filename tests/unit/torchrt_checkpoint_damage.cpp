#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_checkpoint_cases.hpp"
#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/device/unique_fd.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

const TestLayout kTwoStages = {{2, 3}, {1, 1}, {1, 1}};

// Two checkpoints, of steps 10 and 20, and the one that a rank finds.
class Checkpoints {
 public:
  Checkpoints() {
    for (const std::int64_t step : {10, 20}) write_checkpoint(config, kTwoStages, step);
  }
  std::string newest(const std::string& file) const { return checkpoint_folder(folder_.path(), 20) + "/" + file; }
  Resumption find(const DataFiles* files = nullptr) {
    said.clear();
    const RankSum alone{0, 1, [](double value) { return value; }};
    return find_resumption(
        config, alone, [this](const std::string& what) { said += what + "\n"; }, files);
  }
  const std::string& folder() const { return folder_.path(); }
  // The newest checkpoint is refused in these words, and the one before it is used.
  void check_falls_back(const std::string& words) {
    const Resumption found = find();
    CHECK(found.step() == 10);
    CHECK(found.damaged == std::vector<std::int64_t>{20});
    CHECK_MESSAGE(said.find(words) != std::string::npos, said);
    CHECK(said.find("checkpoint " + folder_.path() + "/step-20") == 0);
    CHECK(said.find("; the one before is tried") != std::string::npos);
  }

 private:
  TestFolder folder_;

 public:
  Config config = checkpoint_config(folder_.path(), tiny_model("gpt2", true));
  std::string said;
};

}  // namespace

TEST_CASE("the newest checkpoint is found, without a word") {
  Checkpoints checkpoints;
  CHECK(checkpoints.find().step() == 20);
  CHECK(checkpoints.said.empty());
}

TEST_CASE("one flipped bit of a tensor is found by file and tensor") {
  Checkpoints checkpoints;
  const std::string path = checkpoints.newest("rank-1.safetensors");
  flip_byte(path, std::filesystem::file_size(path) - 3);
  checkpoints.check_falls_back("is damaged: file rank-1.safetensors: tensor transformer.");
  CHECK(checkpoints.said.find("its checksum differs") != std::string::npos);
}

TEST_CASE("a truncated, a missing and an exchanged file are found by name") {
  Checkpoints checkpoints;
  const std::string path = checkpoints.newest("rank-0.safetensors"), good = text_of_file(path);
  std::filesystem::resize_file(path, good.size() - 1);
  checkpoints.check_falls_back("rank-0.safetensors: ");
  CHECK(checkpoints.said.find("truncated") != std::string::npos);
  std::filesystem::remove(path);
  checkpoints.check_falls_back("rank-0.safetensors: No such file or directory");
  std::filesystem::copy_file(checkpoints.newest("rank-1.safetensors"), path);
  checkpoints.check_falls_back("file rank-0.safetensors does not hold tensor");
}

TEST_CASE("a file that is truncated after it was opened is an Error of the checkpoint, not the end of the process") {
  Checkpoints checkpoints;
  const Resumption found = checkpoints.find();  // has opened and verified every file
  std::filesystem::resize_file(checkpoints.newest("rank-0.safetensors"), 1);
  CHECK_THROWS_WITH_AS(found.checkpoint->verify(0, 1), doctest::Contains("was truncated while it was in use"), Error);
  const UnitSpec spec = unit_spec(checkpoints.config.model, 1);
  std::vector<float> values(spec.floats);
  const Range all{0, static_cast<std::int64_t>(spec.floats)};
  const std::string words = "checkpoint " + checkpoints.folder() + "/step-20: safetensors file ";
  CHECK_THROWS_WITH_AS(found.checkpoint->read(spec, StateKind::parameter, all, values),
                       doctest::Contains(words.c_str()), Error);
}

TEST_CASE("a damaged or missing manifest is found by name") {
  Checkpoints checkpoints;
  const std::string path = checkpoints.newest("manifest.json"), good = text_of_file(path);
  for (const std::size_t position : {std::size_t{10}, good.size() / 3, good.size() / 2, good.size() - 4}) {
    std::ofstream(path) << good;
    flip_byte(path, position);
    checkpoints.check_falls_back("manifest.json: is damaged: ");
  }
  std::ofstream(path) << good.substr(0, good.size() / 2);
  checkpoints.check_falls_back("manifest.json: is damaged: ");
  std::filesystem::remove(path);
  checkpoints.check_falls_back("is partial: it has no readable manifest.json");
}

TEST_CASE("a manifest whose elements do not add up is partial") {
  Checkpoints checkpoints;
  const std::string path = checkpoints.newest("manifest.json");
  Manifest manifest = manifest_from(text_of_file(path), "it");
  CHECK(manifest_from(to_text(manifest), "it") == manifest);
  manifest.tensors.at("transformer.wpe.weight").of(StateKind::first_moment).clear();
  std::ofstream(path) << to_text(manifest);
  checkpoints.check_falls_back(
      "is partial: of tensor transformer.wpe.weight (first_moment) it holds 0 of 240 elements");
}

TEST_CASE("places that lie outside a tensor are refused") {
  Checkpoints checkpoints;
  const Manifest good = manifest_from(text_of_file(checkpoints.newest("manifest.json")), "it");
  const auto complaint = [&](const auto& change) {
    Manifest manifest = good;
    change(manifest.tensors.at("transformer.wpe.weight").of(StateKind::parameter).front());
    try {
      manifest_from(to_text(manifest), "it");
    } catch (const Error& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  CHECK(complaint([](StoredSlice&) {}) == "");
  CHECK(complaint([](StoredSlice& slice) { slice.rows[0].count = 11; }) ==
        "it: is damaged: rows lie beyond the tensor");
  CHECK(complaint([](StoredSlice& slice) { slice.rows[0].first = -1; }) == "it: is damaged: a range is negative");
  CHECK(complaint([](StoredSlice& slice) { slice.columns.first = 1; }) ==
        "it: is damaged: columns lie beyond the tensor");
  CHECK(complaint([](StoredSlice& slice) { slice.elements.first = 1; }) ==
        "it: is damaged: elements lie beyond the shard");
  CHECK(complaint([](StoredSlice& slice) { slice.file = "../x"; }) == "it: is damaged: a file lies outside the folder");
}

TEST_CASE("when no checkpoint is good training does not start anew over them") {
  Checkpoints checkpoints;
  for (const char* step : {"/step-10", "/step-20"})
    std::filesystem::remove(checkpoints.folder() + step + "/manifest.json");
  CHECK_THROWS_WITH_AS(checkpoints.find(), doctest::Contains("none of its 2 checkpoints is good"), Error);
  checkpoints.config.checkpoint.resume = false;
  CHECK_THROWS_WITH_AS(checkpoints.find(), doctest::Contains("though checkpoint.resume is false"), Error);
}

TEST_CASE("a checkpoint of another model, batch or seed is refused by key, not passed over") {
  Checkpoints checkpoints;
  const DataFiles any;  // to train on; the checkpoints do not tell theirs
  const DataFiles* files = &any;
  const auto complaint = [&](const auto& change) {
    const Config good = checkpoints.config;
    change(checkpoints.config);
    std::string words;
    try {
      checkpoints.find(files);
    } catch (const Error& problem) {
      words = problem.what();
      words = words.substr(words.find("was written"));
    }
    checkpoints.config = good;
    return words;
  };
  CHECK(complaint([](Config& config) { config.training.learning_rate = 1; }) == "");
  CHECK(complaint([](Config& config) { config.training.dtype = DataType::bfloat16; }) == "");
  CHECK(complaint([](Config& config) { config.model.hidden = 48; }) ==
        "was written with model.hidden = 24, test.toml says 48; set it back, or choose another checkpoint.directory");
  CHECK(complaint([](Config& config) {
          config.model.family = "llama";
        }).rfind("was written with model.family = \"gpt2\", test.toml says \"llama\"", 0) == 0);
  CHECK(complaint([](Config& config) {
          config.training.global_batch = 16;
        }).rfind("was written with training.global", 0) == 0);
  CHECK(complaint([](Config& config) { config.training.seed = 9; }).rfind("was written with training.seed = 1", 0) ==
        0);
  // To read parameters the same model is enough.
  files = nullptr;
  CHECK(complaint([](Config& config) { config.training.seed = 9, config.training.global_batch = 16; }) == "");
  CHECK(complaint([](Config& config) { config.model.hidden = 48; }).rfind("was written with model.hidden = 24", 0) ==
        0);
}

TEST_CASE("an empty or missing directory starts at the beginning") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  const RankSum alone{0, 1, [](double value) { return value; }};
  const auto silent = [](const std::string&) { FAIL("nothing is to be said"); };
  CHECK(find_resumption(config, alone, silent).step() == 0);
  config.checkpoint.directory = folder / "nowhere";
  CHECK_FALSE(find_resumption(config, alone, silent).checkpoint);
  config.checkpoint.directory.clear();
  CHECK_FALSE(find_resumption(config, alone, silent).checkpoint);
}

TEST_CASE("a damaged checkpoint that is set aside does not count, and a good one of its step can be written") {
  Checkpoints checkpoints;
  std::filesystem::remove(checkpoints.newest("rank-0.safetensors"));
  const Resumption found = checkpoints.find();
  std::string said;
  set_aside(checkpoints.folder(), found.damaged, [&](const std::string& what) { said += what + "\n"; });
  const std::string folder = checkpoint_folder(checkpoints.folder(), 20);
  CHECK(said == "checkpoint " + folder + ": is damaged, and was renamed to " + folder + ".damaged\n");
  CHECK(checkpoint_steps(checkpoints.folder()) == std::vector<std::int64_t>{10});
  CHECK(std::filesystem::exists(folder + ".damaged/manifest.json"));
  write_checkpoint(checkpoints.config, kTwoStages, 20);
  CHECK(checkpoints.find().step() == 20);
  CHECK(checkpoints.said.empty());

  // Once more, beside the first one; and both go with the next good checkpoint, as what is unfinished does.
  std::filesystem::remove(folder + "/manifest.json");
  CHECK(set_aside_damaged(checkpoints.folder(), 20) == folder + ".damaged.2");
  prune_checkpoints(checkpoints.folder(), 19, 2, 0, {});
  CHECK(std::filesystem::exists(folder + ".damaged"));
  write_checkpoint(checkpoints.config, kTwoStages, 30);
  prune_checkpoints(checkpoints.folder(), 30, 2, 0, {});
  CHECK_FALSE(std::filesystem::exists(folder + ".damaged"));
  CHECK_FALSE(std::filesystem::exists(folder + ".damaged.2"));
  CHECK(checkpoint_steps(checkpoints.folder()) == std::vector<std::int64_t>{30, 10});
}

TEST_CASE("a damaged checkpoint that cannot be renamed is told, and counts as passed over") {
  Checkpoints checkpoints;
  std::string said;
  set_aside(checkpoints.folder(), {25}, [&](const std::string& what) { said += what; });
  CHECK(said.find("cannot be renamed to") != std::string::npos);
  const RankSum alone{0, 1, [](double value) { return value; }};
  CHECK(newest_checkpoint(checkpoints.folder(), INT64_MAX, alone) == 20);
  CHECK(newest_checkpoint(checkpoints.folder(), INT64_MAX, alone, {20}) == 10);
  CHECK(newest_checkpoint(checkpoints.folder(), 10, alone) == -1);
  flip_byte(checkpoints.newest("rank-1.safetensors"),
            std::filesystem::file_size(checkpoints.newest("rank-1.safetensors")) - 3);
  said.clear();
  const auto tell = [&](const std::string& what) { said += what; };
  CHECK(look_at_checkpoint(checkpoints.config, 10, alone, tell, "; so") == CheckpointIs::good);
  CHECK(said.empty());
  CHECK(look_at_checkpoint(checkpoints.config, 20, alone, tell, "; so") == CheckpointIs::damaged);
  CHECK(said.find("its checksum differs; so") != std::string::npos);
}

namespace {

// So many files may be opened beside those that are open, until it is destroyed. The system refuses to open more, also
// to root.
class FewFiles {
 public:
  explicit FewFiles(rlim_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // the lowest number that is free
    const rlimit few{static_cast<rlim_t>(next.get()) + more, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

constexpr const char* kNotNow =
    "a rank cannot read it now, but it may be good, so no older one is used in its place; look at the file system of "
    "checkpoint.directory, then start again";

}  // namespace

TEST_CASE("a checkpoint whose manifest the system cannot read is not damaged: no older one is used") {
  Checkpoints checkpoints;
  const std::string path = checkpoints.newest("manifest.json"), good = text_of_file(path);
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/proc/self/mem", path);  // nothing is mapped at its beginning: EIO
  CHECK_THROWS_WITH_AS(checkpoints.find(), doctest::Contains(kNotNow), Error);
  CHECK(checkpoints.said == "checkpoint " + checkpoints.folder() + "/step-20: file " + path +
                                ": byte 0 cannot be read: Input/output error; look at the file system, then start "
                                "again\n");
  const RankSum alone{0, 1, [](double value) { return value; }};
  const auto silent = [](const std::string&) {};
  CHECK(look_at_checkpoint(checkpoints.config, 20, alone, silent, "") == CheckpointIs::unreadable);
  CHECK(checkpoint_steps(checkpoints.folder()) == std::vector<std::int64_t>{20, 10});
  // Once the file system is well again, it is the one to go on from.
  std::filesystem::remove(path);
  std::ofstream(path) << good;
  CHECK(checkpoints.find().step() == 20);
}

TEST_CASE("a part of a checkpoint that the system cannot open is not damaged") {
  Checkpoints checkpoints;
  const RankSum alone{0, 1, [](double value) { return value; }};
  std::string said;
  CheckpointIs found{};
  {
    const FewFiles limit(1);  // the manifest is read and closed, the first part is open, the second one is too much
    found = look_at_checkpoint(
        checkpoints.config, 20, alone, [&](const std::string& what) { said += what; }, "; so");
  }
  CHECK(found == CheckpointIs::unreadable);
  const std::string folder = checkpoints.folder() + "/step-20";
  CHECK(said == "checkpoint " + folder + ": safetensors file " + folder +
                    "/rank-1.safetensors: cannot be opened: Too many open files; raise the limit of open files, then "
                    "start again; so");
  CHECK(look_at_checkpoint(
            checkpoints.config, 20, alone, [](const std::string&) {}, "") == CheckpointIs::good);
}

TEST_CASE("a checkpoint that another rank cannot read is not used, whatever this one finds") {
  Checkpoints checkpoints;
  int asked = 0;
  // The sums of one attempt: the step of rank 0, its manifest, those that cannot read, those that found damage.
  const RankSum two{0, 2, [&](double value) { return value + (++asked == 3 ? 1 : 0); }};
  std::string said;
  CHECK_THROWS_WITH_AS(find_resumption(checkpoints.config, two, [&](const std::string& what) { said += what; }),
                       doctest::Contains(kNotNow), Error);
  CHECK(said.empty());
  std::filesystem::remove(checkpoints.newest("rank-0.safetensors"));
  asked = 0;
  CHECK_THROWS_WITH_AS(find_resumption(checkpoints.config, two, [&](const std::string& what) { said += what; }),
                       doctest::Contains(kNotNow), Error);
  CHECK(said.find("rank-0.safetensors: No such file or directory") != std::string::npos);
  CHECK(said.find("is tried") == std::string::npos);
}

TEST_CASE("a checkpoint directory that the system cannot look at is not an empty one") {
  const TestFolder folder;
  const std::string self = folder / "self";
  std::filesystem::create_symlink(self, self);  // leads nowhere, for ever
  CHECK_THROWS_WITH_AS(checkpoint_steps(self), doctest::Contains("cannot be looked at: "), Error);
  CHECK(checkpoint_steps(folder / "nowhere").empty());
}
