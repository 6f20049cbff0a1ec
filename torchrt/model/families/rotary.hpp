// The common part of the families with rotary positions and gated feed-forwards: tensors, and
// settings in config.json. Pure.
#pragma once

#include "torchrt/model/family.hpp"

namespace espalier::torchrt {

void complete_rotary(ModelConfig& model);
void read_rotary(ConfigJson& json, ModelConfig& model);
void write_rotary(const ModelConfig& model, nlohmann::json& json);

// A family with LLaMA's tensors. The caller fills in the family's differences.
constexpr Family rotary_family(const char* name, const char* architecture) {
  Family family{};
  family.name = name;
  family.architecture = architecture;
  family.norm = NormKind::rms;
  family.predicts_ahead = true;
  family.table = "model.embed_tokens";
  family.layers = "model.layers.";
  family.attention_norm = "input_layernorm";
  family.query = "self_attn.q_proj";
  family.key = "self_attn.k_proj";
  family.value = "self_attn.v_proj";
  family.attention_output = "self_attn.o_proj";
  family.feed_forward_norm = "post_attention_layernorm";
  family.up = "mlp.up_proj";
  family.gate = "mlp.gate_proj";
  family.down = "mlp.down_proj";
  family.final_norm = "model.norm";
  family.head = "lm_head";
  return family;
}

}  // namespace espalier::torchrt
