// LLaMA 2 and 3: rotary positions (stretched in 3.1), RMS norms, grouped-query attention, gated feed-forward.
#include "torchrt/model/families/rotary.hpp"

namespace espalier::torchrt {

namespace {

void complete(ModelConfig& model) { complete_rotary(model); }

void read(ConfigJson& json, ModelConfig& model) {
  read_rotary(json, model);
  json.read("num_key_value_heads", model.key_value_heads);
  json.read("head_dim", model.head_size);
  json.read("attention_bias", model.attention_bias);
  json.read("mlp_bias", model.mlp_bias);
  json.only("pretraining_tp", 1);
}

void write(const ModelConfig& model, nlohmann::json& json) {
  write_rotary(model, json);
  json["head_dim"] = model.head_size;
  json["attention_bias"] = model.attention_bias;
  json["mlp_bias"] = model.mlp_bias;
}

}  // namespace

constinit const Family kLlama = [] {
  Family family = rotary_family("llama", "LlamaForCausalLM");
  family.output_projection_biased = true;
  family.complete = complete;
  family.read = read;
  family.write = write;
  return family;
}();

}  // namespace espalier::torchrt
