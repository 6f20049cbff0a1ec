// Models from Hugging Face's config.json.
#include <doctest/doctest.h>

#include "planner/cli/hugging_face_config.hpp"
#include "planner/cli/plan_job_file.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;

namespace {

const std::string kGpt2 =
    R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})";
const std::string kLlama7b =
    R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "intermediate_size": 11008, "max_position_embeddings": 4096, "vocab_size": 32000})";
const std::string kLlama8b =
    R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 8192, "vocab_size": 128256})";
const std::string kQwen7b =
    R"({"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "max_position_embeddings": 32768, "vocab_size": 152064,
        "tie_word_embeddings": false})";

HuggingFaceModel read(const std::string& json) {
  const Folder folder;
  return read_hugging_face_config(folder.write("config.json", json));
}

std::string without(std::string json, const std::string& key) {
  json.replace(json.find("\"" + key + "\""), key.size() + 2, "\"x\"");
  return json;
}

std::string refusal(const std::string& json) {
  const Folder folder;
  return complaint(folder, [&] { read_hugging_face_config(folder.write("config.json", json)); });
}

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("a config.json's shape is the model's") {
    CHECK(read(kGpt2).shape == ModelShape{"gpt2", 12, 768, 12, 1024, 50257, 0, 0});
    CHECK(read(kGpt2).tied);
    CHECK(read(kLlama7b).shape == ModelShape{"llama", 32, 4096, 32, 4096, 32000, 0, 0, 32, 11008});
    CHECK_FALSE(read(kLlama7b).tied);
    CHECK(read(kQwen7b).shape == ModelShape{"qwen2", 28, 3584, 28, 32768, 152064, 0, 0, 4, 18944});
  }

  TEST_CASE("a config.json's dropout says whether layers keep the attention's scores") {
    const auto with = [](std::string json, const std::string& field) {
      json.insert(json.size() - 1, ", " + field);
      return read(json).shape.keeps_scores;
    };
    CHECK_FALSE(read(kGpt2).shape.keeps_scores.has_value());
    CHECK(with(kGpt2, "\"attn_pdrop\": 0.1") == true);
    CHECK(with(kGpt2, "\"attn_pdrop\": 0") == false);
    CHECK(with(kLlama7b, "\"attention_dropout\": 0.0") == false);
    CHECK(with(kLlama7b, "\"attention_dropout\": 0.1") == true);
  }

  TEST_CASE("a layer of other widths than its family's is counted as it is") {
    // 2 * 4096^2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    CHECK(layer_parameters(read(kLlama8b).shape) == doctest::Approx(218112000.0));
  }

  TEST_CASE("TP degrees divide the key and value heads and the feed-forward's width, as in the training") {
    CHECK(tp_degrees(read(kLlama8b).shape) == std::vector{1, 2, 4, 8});
    CHECK(tp_degrees(read(kQwen7b).shape) == std::vector{1, 2, 4});
    const Folder folder;
    folder.write("config.json", kLlama8b);
    CHECK(complaint(folder,
                    [&] {
                      read_plan_job(folder.write("j.toml",
                                                 "config = \"config.json\"\nglobal_batch = 16\nstep_seconds = 1\n"
                                                 "present = { pp = 1, dp = 1, tp = 16, micro_batches = 1 }\n"));
                    }) ==
          "j.toml:4: present: tp must be a power of two that divides the model's 32 heads, 8 key and value heads and "
          "feed-forward width 14336");
  }

  TEST_CASE("key and value heads that do not divide the heads are refused") {
    std::string json = kLlama8b;
    json.replace(json.find("_heads\": 8"), 10, "_heads\": 5");
    CHECK(refusal(json) == "config.json.num_key_value_heads: must divide num_attention_heads, 32");
  }

  TEST_CASE("each wrong key of a config.json is named") {
    CHECK(refusal("{").starts_with("config.json: is not JSON"));
    CHECK(refusal("[]") == "config.json: must be a JSON object");
    CHECK(refusal("{}") == "config.json.model_type: missing");
    CHECK(refusal(R"({"model_type": "bert"})") ==
          "config.json.model_type: \"bert\" is not known; use gpt2, llama or qwen2");
    for (const char* key : {"n_layer", "n_embd", "n_head", "n_positions", "vocab_size"})
      CHECK(refusal(without(kGpt2, key)) == "config.json." + std::string(key) + ": missing");
    for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "max_position_embeddings",
                            "vocab_size", "intermediate_size"})
      CHECK(refusal(without(kLlama7b, key)) == "config.json." + std::string(key) + ": missing");
    CHECK(refusal(R"({"model_type": "gpt2", "n_layer": 0})") == "config.json.n_layer: must be at least 1");
    CHECK(refusal(R"({"model_type": "gpt2", "n_layer": "12"})").starts_with("config.json.n_layer: must be"));
  }

  TEST_CASE("a job names a config.json beside it, and its own sequence and tying come first") {
    const Folder folder;
    folder.write("config.json", kGpt2);
    const PlanJob job = read_plan_job(
        folder.write("j.toml", "config = \"config.json\"\nglobal_batch = 8\nsequence = 512\ntied = false\n"));
    CHECK(job.shape == ModelShape{"gpt2", 12, 768, 12, 512, 50257, 8, 0});
    CHECK_FALSE(job.training.tied);
    CHECK(read_plan_job(folder.write("k.toml", "config = \"config.json\"\nglobal_batch = 8\n")).training.tied);
    CHECK(complaint(folder, [&] {
            read_plan_job(folder.write("l.toml", "config = \"none.json\"\nglobal_batch = 8\n"));
          }) == "none.json: cannot be read; give the path of a model's config.json");
  }
}
