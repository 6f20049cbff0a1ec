// Qwen2: as LLaMA, with biases on query, key and value; its small models tie the embeddings.
#include "torchrt/model/families/rotary.hpp"

namespace espalier::torchrt {

namespace {

void complete(ModelConfig& model) {
  complete_rotary(model);
  model.attention_bias = true;
  model.mlp_bias = false;
}

void read(ConfigJson& json, ModelConfig& model) {
  read_rotary(json, model);
  json.require("num_key_value_heads", model.key_value_heads);
  json.read("head_dim", model.head_size);
  json.only("use_sliding_window", false);
  json.ignore({"sliding_window", "max_window_layers"});  // without effect when use_sliding_window is false
  if (json.has("layer_types"))
    for (const nlohmann::json& type : json.at("layer_types"))
      if (type != "full_attention")
        json.fail("layer_types", "has " + type.dump() + "; only \"full_attention\" is supported");
}

void write(const ModelConfig& model, nlohmann::json& json) {
  write_rotary(model, json);
  json["head_dim"] = model.head_size;
  json["use_sliding_window"] = false;
}

}  // namespace

constinit const Family kQwen2 = [] {
  Family family = rotary_family("qwen2", "Qwen2ForCausalLM");
  family.complete = complete;
  family.read = read;
  family.write = write;
  return family;
}();

}  // namespace espalier::torchrt
