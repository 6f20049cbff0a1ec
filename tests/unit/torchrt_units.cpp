// The model as units, and their tensor-parallel shards.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_models.hpp"
#include "torchrt/model/initialise.hpp"
#include "torchrt/model/state_layout.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

std::set<std::string> names(const ModelConfig& model) {
  std::set<std::string> all;
  for (int unit = 0; unit < unit_count(model); ++unit)
    for (const TensorSpec& tensor : unit_spec(model, unit).tensors) all.insert(tensor.hugging_face);
  return all;
}

const std::vector<ModelConfig> kModels = {small_model("gpt2", true), small_model("gpt2"), small_model("llama"),
                                          small_model("qwen2", true)};

template <class Visit>
void each_place(const TensorSpec& tensor, Visit visit) {
  std::size_t place = 0;
  for (const Range& rows : tensor.rows)
    for (std::int64_t row = rows.first; row < rows.end(); ++row)
      for (std::int64_t column = tensor.columns.first; column < tensor.columns.end(); ++column)
        visit(std::pair{row, column}, place++);
  CHECK(place == tensor.elements());
}

}  // namespace

TEST_CASE("MTP modules are units between the layers and the head, with DeepSeek-V3's names") {
  ModelConfig model = small_model("llama");  // 3 layers
  const int plain = unit_count(model);
  model.mtp_layers = 2;
  CHECK(unit_count(model) == plain + 2);
  CHECK(unit_part(model, 0) == UnitPart::embedding);
  CHECK(unit_part(model, 3) == UnitPart::block);
  CHECK(unit_part(model, 4) == UnitPart::mtp);
  CHECK(unit_part(model, 5) == UnitPart::mtp);
  CHECK(unit_part(model, 6) == UnitPart::head);
  CHECK(mtp_depth(model, 3) == 0);
  CHECK(mtp_depth(model, 5) == 2);
  const std::set<std::string> all = names(model);
  CHECK(all.size() == 1 + 3 * 9 + 2 * (9 + 3) + 2 + 2);
  for (const char* name : {"model.layers.3.enorm.weight", "model.layers.3.hnorm.weight",
                           "model.layers.4.eh_proj.weight", "model.layers.4.self_attn.q_proj.weight",
                           "model.layers.3.shared_head.norm.weight", "model.layers.4.shared_head.norm.weight"})
    CHECK_MESSAGE(all.contains(name), name);
  // The head holds the last norms; the projection is whole on every TP rank, and not cut.
  CHECK(unit_spec(model, 6).tensor("4.shared_head.norm.weight").elements() == static_cast<std::size_t>(model.hidden));
  const TensorSpec projection = unit_spec(model, 4, 2, 1).tensor("eh_proj.weight");
  CHECK(projection.shape == std::vector<std::int64_t>{model.hidden, 2 * model.hidden});
  CHECK(projection.replicated());
}

TEST_CASE("MTP modules that a model cannot have are refused") {
  const auto refusal = [](const ModelConfig& wrong) -> std::string {
    try {
      completed(wrong);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  ModelConfig model = small_model("llama");
  model.mtp_layers = -1;
  CHECK(refusal(model).find("mtp_layers = -1, must not be negative") != std::string::npos);
  model.mtp_layers = model.sequence;
  CHECK(refusal(model).find("must be less than sequence") != std::string::npos);
  model.mtp_layers = 1, model.mtp_weight = -1;
  CHECK(refusal(model) == "model: mtp_weight must lie between 0 and 10");
  ModelConfig gpt2 = small_model("gpt2");
  gpt2.mtp_layers = 1;
  CHECK(refusal(gpt2) == "model: family \"gpt2\" has no multi-token prediction; remove mtp_layers");
}

TEST_CASE("tensors have the names that Hugging Face gives them") {
  const std::set<std::string> gpt2 = names(small_model("gpt2", true));
  CHECK(gpt2.size() == 2 + 3 * 12 + 2);
  for (const char* name : {"transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.bias",
                           "transformer.h.2.attn.c_attn.weight", "transformer.h.2.attn.c_proj.bias",
                           "transformer.h.1.mlp.c_fc.bias", "transformer.ln_f.weight"})
    CHECK_MESSAGE(gpt2.contains(name), name);
  CHECK(names(small_model("gpt2")).contains("lm_head.weight"));
  CHECK_FALSE(gpt2.contains("lm_head.weight"));
  const std::set<std::string> llama = names(small_model("llama"));
  CHECK(llama.size() == 1 + 3 * 9 + 2);
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
        "model.layers.2.self_attn.o_proj.weight", "model.layers.2.post_attention_layernorm.weight",
        "model.layers.0.mlp.gate_proj.weight", "model.norm.weight", "lm_head.weight"})
    CHECK_MESSAGE(llama.contains(name), name);
  const std::set<std::string> qwen2 = names(small_model("qwen2", true));
  CHECK(qwen2.size() == 1 + 3 * 12 + 1);
  CHECK(qwen2.contains("model.layers.1.self_attn.v_proj.bias"));
  CHECK_FALSE(qwen2.contains("model.layers.1.self_attn.o_proj.bias"));
}

TEST_CASE("shards of 1, 2, 3 and 6 ranks tile every split tensor and hold the others whole") {
  for (const ModelConfig& model : kModels)
    for (const int tp : {1, 2, 3, 6})
      for (int unit = 0; unit < unit_count(model); ++unit) {
        const UnitSpec whole = unit_spec(model, unit);
        for (const TensorSpec& tensor : whole.tensors) {
          std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
          for (int rank = 0; rank < tp; ++rank) {
            const TensorSpec shard = unit_spec(model, unit, tp, rank).tensor(tensor.name);
            CHECK(shard.global_shape == tensor.shape);
            CHECK(shard.replicated() == (tp == 1 || shard.split == Split::none));
            each_place(shard, [&](const auto& coordinate, std::size_t) { ++seen[coordinate]; });
          }
          CHECK(seen.size() == tensor.elements());
          const int times = tensor.split == Split::none ? tp : 1;
          CHECK(std::all_of(seen.begin(), seen.end(), [&](const auto& place) { return place.second == times; }));
        }
      }
}

TEST_CASE("a fused query, key and value is cut in each of its three parts") {
  const TensorSpec shard = unit_spec(small_model("gpt2"), 1, 3, 1).tensor("attn.c_attn.weight");
  CHECK(shard.rows == std::vector<Range>{{16, 16}, {64, 16}, {112, 16}});
  CHECK(shard.shape == std::vector<std::int64_t>{48, 48});
  CHECK(unit_spec(small_model("gpt2"), 1, 3, 1).tensor("attn.c_attn.bias").rows == shard.rows);
}

TEST_CASE("a vocabulary that does not divide is cut unevenly, without a gap") {
  const ModelConfig model = small_model("llama");
  CHECK(unit_spec(model, 0, 3, 0).tensor("embed_tokens.weight").rows == std::vector<Range>{{0, 33}});
  CHECK(unit_spec(model, 0, 3, 1).tensor("embed_tokens.weight").rows == std::vector<Range>{{33, 34}});
  CHECK(unit_spec(model, 4, 3, 2).tensor("lm_head.weight").rows == std::vector<Range>{{67, 34}});
}

TEST_CASE("tensors with weight decay come first, aligned, and do not overlap") {
  for (const ModelConfig& model : kModels)
    for (int unit = 0; unit < unit_count(model); ++unit) {
      const UnitSpec spec = unit_spec(model, unit, 2, 1);
      std::size_t end = 0;
      for (const TensorSpec& tensor : spec.tensors) {
        CHECK(tensor.offset >= end);
        CHECK(tensor.offset % kAlignElements == 0);
        CHECK(tensor.decay == (tensor.offset < spec.decay_floats));
        CHECK(tensor.decay == (tensor.global_shape.size() == 2));
        end = tensor.offset + tensor.elements();
      }
      CHECK(spec.floats >= end);
      CHECK(spec.floats % kAlignElements == 0);
    }
}

TEST_CASE("degrees that do not divide heads, key and value heads or the feed-forward are refused by name") {
  ModelConfig model = small_model("llama");
  const auto refusal = [&](int tp) {
    try {
      unit_spec(model, 1, tp, 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(5) ==
        "model: heads = 12 cannot be divided by a tensor-parallel degree of 5; choose a degree that divides it");
  CHECK(refusal(4).find("key_value_heads = 6") != std::string::npos);
  model.intermediate = 97;
  CHECK(refusal(2).find("intermediate = 97") != std::string::npos);
}

TEST_CASE("initial values are those of the whole tensor, whatever the shard") {
  for (const ModelConfig& model : kModels)
    for (int unit = 0; unit < unit_count(model); ++unit) {
      const UnitSpec whole = unit_spec(model, unit);
      std::vector<float> all(whole.floats);
      initialise(whole, 5, all);
      for (int rank = 0; rank < 3; ++rank) {
        const UnitSpec shard = unit_spec(model, unit, 3, rank);
        std::vector<float> part(shard.floats);
        initialise(shard, 5, part);
        for (const TensorSpec& tensor : shard.tensors) {
          const TensorSpec& original = whole.tensor(tensor.name);
          const std::int64_t width = original.columns.count;
          int different = 0;
          each_place(tensor, [&](const auto& at, std::size_t place) {
            const std::size_t index = static_cast<std::size_t>(at.first * width + at.second);
            different += all[original.offset + index] != part[tensor.offset + place];
          });
          CHECK(different == 0);
        }
      }
    }
}

TEST_CASE("a tensor so large that threads share it has the values that it has by rows") {
  ModelConfig model = small_model("gpt2", true);
  model.vocabulary = 20'011;  // of 48 floats each; slices of rows do not come out even
  const UnitSpec whole = unit_spec(model, 0);
  std::vector<float> all(whole.floats), again(whole.floats);
  initialise(whole, 5, all);
  UnitSpec row = whole;
  const TensorSpec& table = whole.tensor("wte.weight");
  const std::size_t width = static_cast<std::size_t>(table.columns.count);
  std::vector<float> part;
  int different = 0;
  for (std::int64_t at = 0; at < model.vocabulary; at += 101) {
    row.tensors = {table};
    row.tensors[0].rows = {{at, 1}};
    row.tensors[0].offset = 0;
    row.floats = width;
    part.assign(width, 0);
    initialise(row, 5, part);
    for (std::size_t i = 0; i < width; ++i)
      different += part[i] != all[table.offset + static_cast<std::size_t>(at) * width + i];
  }
  CHECK(different == 0);
  initialise(whole, 5, again);
  CHECK(all == again);
}

TEST_CASE("both copies of a tied table start alike; other tensors differ from each other and between seeds") {
  const ModelConfig model = small_model("gpt2", true);
  const auto values = [&](int unit, const char* name, std::uint64_t seed) {
    const UnitSpec spec = unit_spec(model, unit);
    std::vector<float> all(spec.floats);
    initialise(spec, seed, all);
    const TensorSpec& tensor = spec.tensor(name);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(tensor.elements()));
  };
  CHECK(values(0, "wte.weight", 1) == values(4, "lm_head.weight", 1));
  CHECK(values(0, "wte.weight", 1) != values(0, "wte.weight", 2));
  CHECK(values(1, "mlp.c_fc.weight", 1) != values(2, "mlp.c_fc.weight", 1));
  CHECK(values(1, "ln_1.weight", 1) == std::vector<float>(48, 1));
  double square = 0;
  const std::vector<float> table = values(0, "wte.weight", 1);
  for (const float value : table) square += static_cast<double>(value) * static_cast<double>(value);
  CHECK(std::sqrt(square / static_cast<double>(table.size())) == doctest::Approx(0.02).epsilon(0.03));
}

TEST_CASE("ZeRO's parts cover the unit in order, in whole pieces") {
  for (const std::size_t floats : {std::size_t{64}, std::size_t{640}, std::size_t{64 * 1001}})
    for (const int ranks : {1, 2, 3, 7, 16}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range part = zero_part(floats, ranks, rank);
        CHECK(part.first == next);
        CHECK(part.count % 64 == 0);
        CHECK(std::abs(part.count - static_cast<std::int64_t>(floats) / ranks) < 128);
        next = part.end();
      }
      CHECK(next == static_cast<std::int64_t>(floats));
    }
}

TEST_CASE("a unit's state is parameters and two moments, in bfloat16 master weights too") {
  const UnitSpec spec = unit_spec(small_model("llama"), 1);
  const StateLayout full = state_layout(spec, DataType::float32);
  CHECK(full.bytes() == 12 * spec.floats);
  CHECK(full.first_moment_offset() == 4 * spec.floats);
  const StateLayout half = state_layout(spec, DataType::bfloat16);
  CHECK(half.master_offset() == 2 * spec.floats);
  CHECK(half.second_moment_offset() == 10 * spec.floats);
  CHECK(half.bytes() == 14 * spec.floats);
  std::size_t divided = 0;
  for (int rank = 0; rank < 3; ++rank) divided += state_layout(spec, DataType::bfloat16, 3, rank).bytes();
  CHECK(divided == (3 * 2 + 12) * spec.floats);
}
