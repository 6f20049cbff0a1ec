#include "torchrt/model/families/rotary.hpp"

namespace espalier::torchrt {

namespace {

void read_scaling(ConfigJson rope, ModelConfig& model) {
  std::string kind = "default";
  rope.read("type", kind);  // the older name
  rope.read("rope_type", kind);
  rope.read("rope_theta", model.rope_theta);
  RopeScaling& scaling = model.rope_scaling;
  if (kind == "linear") {
    rope.require("factor", scaling.factor);
  } else if (kind == "llama3") {
    rope.require("factor", scaling.factor);
    rope.require("low_freq_factor", scaling.low_frequency_factor);
    rope.require("high_freq_factor", scaling.high_frequency_factor);
    rope.require("original_max_position_embeddings", scaling.original_positions);
    if (scaling.high_frequency_factor <= scaling.low_frequency_factor)
      rope.fail("high_freq_factor", "must be greater than low_freq_factor");
  } else if (kind != "default") {
    rope.fail("rope_type", "\"" + kind + "\" is not supported; use \"linear\", \"llama3\" or none");
  }
  if (scaling.factor <= 0) rope.fail("factor", "must be greater than 0");
  if (model.rope_theta <= 0) rope.fail("rope_theta", "must be greater than 0");
  scaling.kind = kind == "default" ? "none" : kind;
  rope.finish();
}

}  // namespace

void complete_rotary(ModelConfig& model) {
  // LLaMA's rule: two thirds of 4 x hidden, rounded up to a multiple of 256.
  if (model.intermediate == 0) model.intermediate = (8 * model.hidden / 3 + 255) / 256 * 256;
  model.activation = Activation::silu;
}

void read_rotary(ConfigJson& json, ModelConfig& model) {
  json.require("num_hidden_layers", model.layers);
  json.require("hidden_size", model.hidden);
  json.require("num_attention_heads", model.heads);
  json.require("intermediate_size", model.intermediate);
  json.require("max_position_embeddings", model.positions);
  model.norm_epsilon = 1e-6;  // Hugging Face's default
  json.read("rms_norm_eps", model.norm_epsilon);
  json.read("attention_dropout", model.attention_dropout);
  if (!json.has("num_nextn_predict_layers") || json.at("num_nextn_predict_layers") != 0)
    json.read("num_nextn_predict_layers", model.mtp_layers);
  json.only("hidden_act", "silu");
  json.only("partial_rotary_factor", 1.0);
  json.read("rope_theta", model.rope_theta);
  // "rope_parameters" since transformers 5, "rope_scaling" (and "rope_theta" beside it) before.
  if (json.has("rope_parameters") && json.has("rope_scaling"))
    json.fail("rope_scaling", "is given beside rope_parameters; remove one");
  read_scaling(json.table(json.has("rope_parameters") ? "rope_parameters" : "rope_scaling"), model);
}

void write_rotary(const ModelConfig& model, nlohmann::json& json) {
  json["num_hidden_layers"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.key_value_heads;
  json["intermediate_size"] = model.intermediate;
  json["max_position_embeddings"] = model.positions;
  json["rms_norm_eps"] = model.norm_epsilon;
  json["attention_dropout"] = model.attention_dropout;
  json["hidden_act"] = "silu";
  // DeepSeek-V3's key. Other programs do not know it here and leave the modules' tensors out.
  if (model.mtp_layers > 0) json["num_nextn_predict_layers"] = model.mtp_layers;
  json["rope_theta"] = model.rope_theta;
  const RopeScaling& scaling = model.rope_scaling;
  if (scaling.kind == "none") return;
  json["rope_scaling"] = {{"rope_type", scaling.kind}, {"factor", scaling.factor}};
  if (scaling.kind == "llama3")
    json["rope_scaling"].update({{"low_freq_factor", scaling.low_frequency_factor},
                                 {"high_freq_factor", scaling.high_frequency_factor},
                                 {"original_max_position_embeddings", scaling.original_positions}});
}

}  // namespace espalier::torchrt
