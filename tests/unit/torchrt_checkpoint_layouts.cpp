#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_checkpoint_cases.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// Layouts for a model of three layers, five units.
const std::vector<TestLayout> kLayouts = {
    {{5}, {1}, {1}},
    {{2, 3}, {1, 1}, {1, 1}},
    {{1, 3, 1}, {3, 1, 2}, {1, 2, 1}},
    {{3, 2}, {2, 3}, {2, 1}, true},
    {{5}, {4}, {1}, true, DataType::bfloat16},
    {{2, 3}, {1, 2}, {2, 2}, false, DataType::bfloat16},
};

}  // namespace

TEST_CASE("what one layout writes every other reads, bit for bit") {
  const std::unique_ptr<Device> device = make_cpu_device();
  for (const auto& [family, tied] : {std::pair("gpt2", true), {"llama", false}, {"qwen2", true}})
    for (const TestLayout& written : kLayouts) {
      const TestFolder folder;
      const Config config = checkpoint_config(folder.path(), tiny_model(family, tied));
      write_checkpoint(config, written, 10);
      for (const TestLayout& read : kLayouts) {
        CheckpointReader checkpoint(checkpoint_folder(folder.path(), 10));
        for (TestRank& rank : make_ranks(config.model, read, *device))
          for (std::size_t i = 0; i < rank.specs.size(); ++i) {
            load_state(checkpoint, rank.specs[i], rank.states[i], *device, rank.memory[i]->data());
            const std::vector<char> expected = expected_memory(rank.specs[i], rank.states[i]);
            CHECK(std::memcmp(rank.memory[i]->data(), expected.data(), expected.size()) == 0);
          }
      }
    }
}

TEST_CASE("a checkpoint holds every element once, and nothing but what its manifest names") {
  const TestFolder folder;
  const Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  write_checkpoint(config, kLayouts[3], 10);
  const std::string path = checkpoint_folder(folder.path(), 10);
  CheckpointReader checkpoint(path);
  std::uint64_t bytes = 0;
  for (int rank = 0; rank < 7; ++rank) {
    const SafetensorsFile file(path + "/" + part_file(rank));
    for (const auto& [name, tensor] : file.tensors()) bytes += tensor.bytes.size();
  }
  std::uint64_t elements = 0;
  for (const auto& [name, state] : checkpoint.manifest().tensors)
    elements += static_cast<std::uint64_t>(state.shape[0] * (state.shape.size() == 2 ? state.shape[1] : 1));
  CHECK(bytes == 12 * elements);
  CHECK(checkpoint.manifest().samples == 80);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++files;
  CHECK(files == 8);
  for (int part = 0; part < 3; ++part) checkpoint.verify(part, 3);
}

TEST_CASE("leftovers of an earlier attempt are not taken along") {
  const TestFolder folder;
  const Config config = checkpoint_config(folder.path(), tiny_model("llama", false));
  const std::string unfinished = unfinished_folder(folder.path(), 10, 0);
  std::filesystem::create_directory(unfinished);
  std::ofstream(unfinished + "/rank-17.safetensors") << "old";
  write_checkpoint(config, kLayouts[1], 10);
  CHECK_FALSE(std::filesystem::exists(checkpoint_folder(folder.path(), 10) + "/rank-17.safetensors"));
  CHECK(std::filesystem::exists(checkpoint_folder(folder.path(), 10) + "/rank-1.safetensors"));
}

TEST_CASE("without one rank's part nothing is committed") {
  const TestFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device();
  const Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  const std::vector<TestRank> ranks = filled_ranks(config.model, kLayouts[1], *device);
  const std::string unfinished = unfinished_folder(folder.path(), 10, 0), whole = checkpoint_folder(folder.path(), 10);
  Snapshot snapshot;
  take_snapshot(ranks[0].units(), ranks[0].layout, *device, snapshot);
  WriteProgress progress;
  write_part(unfinished, 0, snapshot, progress);
  CHECK_THROWS_WITH_AS(commit_checkpoint(unfinished, whole, 2, {}, progress),
                       doctest::Contains("rank-1.json: cannot be read"), Error);
  CHECK_FALSE(std::filesystem::exists(whole));
}

TEST_CASE("a write and a commit that were given up write and name nothing more") {
  const TestFolder folder;
  const Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  const std::unique_ptr<Device> device = make_cpu_device();
  const std::vector<TestRank> ranks = filled_ranks(config.model, {{5}, {1}, {1}}, *device);
  const std::string unfinished = unfinished_folder(folder.path(), 10, 0), whole = checkpoint_folder(folder.path(), 10);
  Snapshot snapshot;
  take_snapshot(ranks[0].units(), ranks[0].layout, *device, snapshot);
  WriteProgress wanted, unwanted;
  unwanted.give_up();
  CHECK_THROWS_WITH_AS(write_part(unfinished, 0, snapshot, unwanted), "was given up", Error);
  CHECK_FALSE(std::filesystem::exists(unfinished + "/" + part_file(0)));
  write_part(unfinished, 0, snapshot, wanted);
  CHECK(wanted.pieces() > static_cast<std::int64_t>(2 * snapshot.slices.size()));
  CHECK_THROWS_AS(commit_checkpoint(unfinished, whole, 1, {}, unwanted), Error);
  CHECK_FALSE(std::filesystem::exists(whole));
}
