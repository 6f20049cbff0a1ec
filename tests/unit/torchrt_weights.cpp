#include <doctest/doctest.h>

#include <numeric>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_safetensors_cases.hpp"
#include "tests/unit/torchrt_tiny_model.hpp"
#include "torchrt/safetensors/hugging_face_files.hpp"
#include "torchrt/safetensors/weights.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

std::vector<UnitSpec> units_of(const ModelConfig& model) {
  std::vector<UnitSpec> units;
  for (int unit = 0; unit < unit_count(model); ++unit) units.push_back(unit_spec(model, unit));
  return units;
}

// Every element has a value of its own, exact in bfloat16 too. The tied table is the same in both
// units.
float value_of(const TensorSpec& tensor, std::int64_t row, std::int64_t column) {
  const auto name =
      static_cast<std::int64_t>(std::accumulate(tensor.hugging_face.begin(), tensor.hugging_face.end(), 0));
  return static_cast<float>((name + row * 31 + column * 7) % 256);
}

std::vector<float> shard_values(const UnitSpec& spec) {
  std::vector<float> values(spec.floats, 0.0F);
  for (const TensorSpec& tensor : spec.tensors) {
    float* next = values.data() + tensor.offset;
    for (const Range& rows : tensor.rows)
      for (std::int64_t row = rows.first; row < rows.end(); ++row)
        for (std::int64_t column = tensor.columns.first; column < tensor.columns.end(); ++column)
          *next++ = value_of(tensor, row, column);
  }
  return values;
}

void write_model(const std::string& folder, const ModelConfig& model, ElementType type,
                 std::uint64_t most = kMostFileBytes) {
  write_hugging_face_files(folder, units_of(model), type, shard_values, most);
}

std::vector<float> loaded(const Weights& weights, const UnitSpec& spec) {
  std::vector<float> values(spec.floats, 0.0F);
  load_unit(weights, spec, values);
  return values;
}

}  // namespace

TEST_CASE("weights in one file or several, of any type, load into every shard of every family") {
  for (const char* family : {"gpt2", "llama", "qwen2"})
    for (const bool tied : {false, true})
      for (const ElementType type : {ElementType::f32, ElementType::bf16})
        for (const std::uint64_t most : {kMostFileBytes, std::uint64_t{5000}}) {
          const ModelConfig model = tiny_model(family, tied);
          const TestFolder folder;
          write_model(folder.path(), model, type, most);
          CHECK(std::filesystem::exists(folder / "model.safetensors.index.json") == (most == 5000));
          const Weights weights(folder.path());
          for (int unit = 0; unit < unit_count(model); ++unit)
            for (const int tp : {1, 2})
              for (int rank = 0; rank < tp; ++rank) {
                const UnitSpec spec = unit_spec(model, unit, tp, rank);
                CHECK(loaded(weights, spec) == shard_values(spec));
              }
        }
}

TEST_CASE("weights that are truncated after they were opened are refused by file") {
  const ModelConfig model = tiny_model("gpt2", true);
  const TestFolder folder;
  write_model(folder.path(), model, ElementType::f32);
  const Weights weights(folder.path());
  std::filesystem::resize_file(folder / "model.safetensors", 1);
  CHECK_THROWS_WITH_AS(loaded(weights, unit_spec(model, 1)),
                       doctest::Contains(("safetensors file " + (folder / "model.safetensors") + ": byte ").c_str()),
                       Error);
}

TEST_CASE("a tied table is written once, and GPT-2's linear layers transposed") {
  const ModelConfig model = tiny_model("gpt2", true);
  const TestFolder folder;
  write_model(folder.path(), model, ElementType::f32);
  const SafetensorsFile file(folder / "model.safetensors");
  CHECK(file.find("lm_head.weight") == nullptr);
  REQUIRE(file.find("transformer.h.0.attn.c_attn.weight"));
  CHECK(file.find("transformer.h.0.attn.c_attn.weight")->shape == std::vector<std::int64_t>{24, 72});
  CHECK(file.find("transformer.wte.weight")->shape == std::vector<std::int64_t>{33, 24});
}

TEST_CASE("names without their first part, as files of a bare model have them, are found") {
  const TestFolder folder;
  SafetensorsWriter writer(folder / "w.safetensors", {{"h.0.ln_1.weight", ElementType::f32, {1}}});
  const float value = 3;
  writer.append(std::as_bytes(std::span(&value, 1)));
  writer.finish();
  CHECK(Weights(folder / "w.safetensors").find("transformer.h.0.ln_1.weight").tensor->shape.size() == 1);
}

TEST_CASE("a tensor that is missing, of another shape or of another type is refused by name") {
  const ModelConfig model = tiny_model("llama", false);
  const auto complaint = [&](const TensorToStore& stored) {
    const TestFolder folder;
    SafetensorsWriter writer(folder / "w.safetensors", {stored});
    writer.append(std::vector<std::byte>(stored.bytes()));
    writer.finish();
    try {
      loaded(Weights(folder / "w.safetensors"), unit_spec(model, 0));
    } catch (const Error& problem) {
      std::string text = problem.what();
      return text.substr(text.find("tensor "));
    }
    return std::string();
  };
  CHECK(complaint({"model.embed_tokens.weight", ElementType::f16, {33, 24}}) == "");
  CHECK(complaint({"model.embed_tokens.weight", ElementType::f32, {24, 33}}) ==
        "tensor model.embed_tokens.weight: has shape [24, 33], the model needs [33, 24]");
  CHECK(complaint({"model.embed_tokens.weight", ElementType::f32, {33 * 24}}) ==
        "tensor model.embed_tokens.weight: has shape [792], the model needs [33, 24]");
  CHECK(complaint({"model.embed_tokens.weight", ElementType::i32, {33, 24}}) ==
        "tensor model.embed_tokens.weight: is of type I32; parameters are read from F32, F16 and BF16");
  CHECK(complaint({"other", ElementType::f32, {1}}) == "tensor model.embed_tokens.weight: is missing");
}

TEST_CASE("an index that disagrees with its files is refused") {
  const TestFolder folder;
  write_model(folder.path(), tiny_model("qwen2", true), ElementType::f32, 5000);
  const std::string path = folder / "model.safetensors.index.json", good = text_of_file(path);
  const auto check = [&](const std::string& from, const std::string& to, const char* words) {
    std::string text = good;
    std::ofstream(path) << text.replace(text.find(from), from.size(), to);
    CHECK_THROWS_WITH_AS(Weights(folder.path()), doctest::Contains(words), Error);
  };
  check("weight_map", "weight_mop", "it has no weight_map");
  check("model-00001", "../model-00001", "no name of a file beside the index");
  check("model-00001", "model-99999", "No such file or directory");
  check("model.embed_tokens.weight", "model.embed_takens.weight", "is not in ");
  CHECK_THROWS_WITH_AS(Weights(folder / "nowhere"), doctest::Contains("No such file or directory"), Error);
  std::filesystem::create_directory(folder / "empty");
  CHECK_THROWS_WITH_AS(Weights(folder / "empty"), doctest::Contains("holds neither model.safetensors nor"), Error);
}

TEST_CASE("weights are never written over others") {
  const TestFolder folder;
  write_model(folder.path(), tiny_model("gpt2", true), ElementType::f32);
  CHECK_THROWS_WITH_AS(write_model(folder.path(), tiny_model("gpt2", true), ElementType::f32),
                       doctest::Contains("is there already; choose another folder"), Error);
}
