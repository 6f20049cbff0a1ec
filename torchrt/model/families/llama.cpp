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

const Family kLlama = {
    .name = "llama",
    .architecture = "LlamaForCausalLM",
    .norm = NormKind::rms,
    .transposed = false,
    .scaled_residual = false,
    .output_projection_biased = true,
    .table = "model.embed_tokens",
    .positions = nullptr,
    .layers = "model.layers.",
    .attention_norm = "input_layernorm",
    .fused = nullptr,
    .query = "self_attn.q_proj",
    .key = "self_attn.k_proj",
    .value = "self_attn.v_proj",
    .attention_output = "self_attn.o_proj",
    .feed_forward_norm = "post_attention_layernorm",
    .up = "mlp.up_proj",
    .gate = "mlp.gate_proj",
    .down = "mlp.down_proj",
    .final_norm = "model.norm",
    .head = "lm_head",
    .complete = complete,
    .read = read,
    .write = write,
};

}  // namespace espalier::torchrt
