// Reads and writes Hugging Face's config.json.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "tests/unit/plan_files.hpp"
#include "torchrt/model/hugging_face.hpp"

using namespace espalier;
using namespace espalier::torchrt;
using espalier::plan_files::Folder;
using Json = nlohmann::json;

namespace {

// As published with the models.
const Json kGpt2 = Json::parse(R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
  "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
  "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})");
const Json kLlama2 = Json::parse(R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true,
  "vocab_size": 32000})");
const Json kLlama31 = Json::parse(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0,
  "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version":
  "4.43.0.dev0", "use_cache": true, "vocab_size": 128256})");
const Json kQwen2 = Json::parse(R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
  "intermediate_size": 4864, "max_position_embeddings": 131072, "max_window_layers": 24, "model_type": "qwen2",
  "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.40.1", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})");

ModelConfig read(const Json& json, int sequence = 512) {
  const Folder folder;
  return read_hugging_face_config(folder.write("config.json", json.dump()), sequence);
}

std::string refusal(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  const Folder folder;
  return complaint(folder, [&] { read_hugging_face_config(folder.write("config.json", json.dump()), 512); });
}

Json without(Json json, const std::string& key) {
  json.erase(key);
  return json;
}

}  // namespace

TEST_CASE("the published configurations of GPT-2, LLaMA 2 and 3.1 and Qwen2 are read") {
  const ModelConfig gpt2 = read(kGpt2);
  CHECK(gpt2.layers == 12);
  CHECK(gpt2.head_size == 64);
  CHECK(gpt2.intermediate == 3072);
  CHECK(gpt2.positions == 1024);
  CHECK(gpt2.sequence == 512);
  CHECK(gpt2.vocabulary == 50257);
  CHECK(gpt2.tied_embeddings);
  CHECK(gpt2.residual_dropout == 0.1);
  CHECK(gpt2.activation == Activation::gelu_tanh);
  const ModelConfig llama2 = read(kLlama2);
  CHECK(llama2.key_value_heads == 32);
  CHECK(llama2.intermediate == 11008);
  CHECK(llama2.norm_epsilon == 1e-5);
  CHECK_FALSE(llama2.tied_embeddings);
  CHECK_FALSE(llama2.attention_bias);
  CHECK(llama2.rope_theta == 10000);
  CHECK(llama2.rope_scaling == RopeScaling{});
  const ModelConfig llama31 = read(kLlama31);
  CHECK(llama31.key_value_heads == 8);
  CHECK(llama31.rope_theta == 500000);
  CHECK(llama31.rope_scaling == RopeScaling{"llama3", 8, 1, 4, 8192});
  const ModelConfig qwen2 = read(kQwen2);
  CHECK(qwen2.key_value_heads == 2);
  CHECK(qwen2.attention_bias);
  CHECK_FALSE(qwen2.mlp_bias);
  CHECK(qwen2.tied_embeddings);
  CHECK(qwen2.rope_theta == 1000000);
}

TEST_CASE("rotary settings are read as older and newer versions write them") {
  Json json = without(kLlama31, "rope_scaling");
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  CHECK(read(json).rope_scaling == RopeScaling{"linear", 2, 1, 4, 0});
  json = without(without(kLlama31, "rope_scaling"), "rope_theta");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 250000.0}};
  CHECK(read(json).rope_theta == 250000);
  CHECK(read(json).rope_scaling == RopeScaling{});
}

TEST_CASE("a written configuration is read back as it was") {
  Json linear = kQwen2;
  linear["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  for (const Json& json : {kGpt2, kLlama2, kLlama31, kQwen2, linear}) {
    const ModelConfig model = read(json);
    CHECK(read(hugging_face_config(model)) == model);
  }
}

TEST_CASE("the ids of special tokens are written as they were read, since generation ends at them") {
  for (const Json& json : {kGpt2, kLlama2, kLlama31, kQwen2}) {
    const Json written = hugging_face_config(read(json));
    CHECK(written.at("bos_token_id") == json.at("bos_token_id"));
    CHECK(written.at("eos_token_id") == json.at("eos_token_id"));
    CHECK_FALSE(written.contains("pad_token_id"));
  }
  Json padded = without(without(kQwen2, "bos_token_id"), "eos_token_id");
  padded["pad_token_id"] = 7;
  const Json written = hugging_face_config(read(padded));
  CHECK(written.at("pad_token_id") == 7);
  CHECK_FALSE(written.contains("eos_token_id"));
}

TEST_CASE("what is not computed is refused by file and key") {
  CHECK(refusal(kLlama2, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}) ==
        "config.json.rope_scaling.rope_type: \"yarn\" is not supported; use \"linear\", \"llama3\" or none");
  CHECK(refusal(kLlama2, "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}).find("\"dynamic\"") !=
        std::string::npos);
  CHECK(refusal(kLlama2, "rope_scaling", {{"type", "linear"}}) ==
        "config.json.rope_scaling.factor: is missing; it decides the model's shape");
  CHECK(refusal(kLlama2, "hidden_act", "gelu") ==
        "config.json.hidden_act: is \"gelu\", which this runtime does not compute; only \"silu\" is supported");
  CHECK(refusal(kLlama2, "quantization_config", {{"bits", 4}}).find("quantized weights cannot be trained") !=
        std::string::npos);
  CHECK(refusal(kLlama2, "num_experts", 8) ==
        "config.json.num_experts: is not known to this runtime; remove it if it does not change what the model "
        "computes");
  CHECK(refusal(kGpt2, "scale_attn_by_inverse_layer_idx", true).find("scale_attn_by_inverse_layer_idx: is true") !=
        std::string::npos);
  CHECK(refusal(kGpt2, "activation_function", "relu") ==
        "config.json.activation_function: \"relu\" is not supported; use \"gelu_new\" or \"gelu\"");
  CHECK(refusal(kGpt2, "add_cross_attention", true).find("add_cross_attention") != std::string::npos);
  CHECK(refusal(kQwen2, "use_sliding_window", true).find("use_sliding_window: is true") != std::string::npos);
  CHECK(refusal(kQwen2, "layer_types", {"full_attention", "sliding_attention"}).find("\"sliding_attention\"") !=
        std::string::npos);
  CHECK(refusal(kQwen2, "model_type", "mamba") ==
        "config.json.model_type: \"mamba\" is not known; use one of gpt2, llama, qwen2");
}

TEST_CASE("sizes that are missing, ill-typed or do not fit are refused by key") {
  CHECK(refusal(kLlama2, "hidden_size", nullptr) ==
        "config.json.hidden_size: is missing; it decides the model's shape");
  CHECK(refusal(kLlama2, "hidden_size", -5) == "config.json.hidden_size: is -5, must be a whole number of at least 1");
  CHECK(refusal(kLlama2, "hidden_size", 4096.5).find("must be a whole number") != std::string::npos);
  CHECK(refusal(kLlama2, "rms_norm_eps", "small").find("must be a number") != std::string::npos);
  CHECK(refusal(kLlama2, "tie_word_embeddings", 1).find("must be true or false") != std::string::npos);
  CHECK(refusal(kLlama2, "num_attention_heads", 7) ==
        "config.json: model: heads = 7 does not divide hidden = 4096; choose a divisor");
  CHECK(refusal(kLlama2, "num_key_value_heads", 5).find("key_value_heads = 5 does not divide heads = 32") !=
        std::string::npos);
  CHECK(refusal(kGpt2, "n_positions", 100).find("sequence = 512 is longer than the 100 positions") !=
        std::string::npos);
  CHECK(refusal(kLlama2, "head_dim", 5).find("cannot be rotated in pairs") != std::string::npos);
}

TEST_CASE("files that are absent or no JSON are refused by path") {
  const Folder folder;
  CHECK(complaint(folder, [&] {
          read_hugging_face_config(folder.path("none.json"), 8);
        }).find("none.json: cannot be read") == 0);
  CHECK(complaint(folder, [&] {
          read_hugging_face_config(folder.write("bad.json", "{"), 8);
        }).find("bad.json: is not JSON") == 0);
  CHECK(complaint(folder, [&] { read_hugging_face_config(folder.write("list.json", "[]"), 8); }) ==
        "list.json: must be a JSON object");
}
