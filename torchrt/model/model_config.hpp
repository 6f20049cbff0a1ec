// The settings of a family's model, from [model] of a configuration or from Hugging Face's
// config.json. Pure.
#pragma once

#include <string>

namespace espalier::torchrt {

constexpr double kMostMtpWeight = 10;

enum class Activation { gelu_tanh, gelu, silu };

// How rotary positions are stretched beyond the length on which a model was first trained.
struct RopeScaling {
  std::string kind = "none";  // "none", "linear", "llama3"
  double factor = 1;
  // Llama3: where stretching begins and is full.
  double low_frequency_factor = 1, high_frequency_factor = 4;
  int original_positions = 0;  // llama3
  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  std::string family = "gpt2";  // a name of families()
  int layers = 0, hidden = 0, heads = 0;
  // Modules that predict one token further ahead each (DeepSeek-V3, section 2.2), after the layers.
  int mtp_layers = 0;
  double mtp_weight = 0.3;  // of the mean of their losses, beside the model's own loss (DeepSeek-V3: lambda)
  int key_value_heads = 0;  // divides heads; fewer: grouped-query attention
  int head_size = 0;
  int intermediate = 0;  // width of the feed-forward
  int sequence = 0;      // tokens per sample
  int vocabulary = 256;
  int positions = 0;  // max_position_embeddings, at least `sequence`; the rows of a learned table
  Activation activation = Activation::gelu_tanh;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tied_embeddings = true;  // the head's matrix is the embedding's table
  // Of query, key and value, and of the output projection where the family has it.
  bool attention_bias = false;
  bool mlp_bias = false;
  double embedding_dropout = 0, residual_dropout = 0, attention_dropout = 0;
  double initializer_range = 0.02;  // standard deviation of random initial matrices
  // The JSON object of bos_token_id, eos_token_id and pad_token_id, as Hugging Face's configuration had them. They
  // change no training, but the exported model's generation ends at them. Empty: not told.
  std::string token_ids;
  // What a plan counts as layers: the transformer blocks of the layers and of the MTP modules.
  int blocks() const { return layers + mtp_layers; }
  bool operator==(const ModelConfig&) const = default;
};

// Fills settings that are 0 and follow from others: head_size, key_value_heads, intermediate,
// positions. Sets the settings that the family fixes (activation, biases). Throws Error that names
// the setting when settings do not fit each other.
ModelConfig completed(ModelConfig model);

}  // namespace espalier::torchrt
