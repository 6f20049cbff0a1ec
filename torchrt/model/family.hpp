// A family of models as data: the names of its tensors, the structure of its blocks, and its
// settings in config.json. A new family is one file in families/ and one line in family.cpp. Pure.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "torchrt/model/config_json.hpp"
#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

enum class NormKind { layer, rms };

// Every block is x + attention(norm(x)), then x + feed_forward(norm(x)). Names are Hugging Face's
// without ".weight". Names in blocks follow `layers` + number + ".". Null: the family has no such
// part.
struct Family {
  const char* name;
  const char* architecture;  // the class in `transformers`
  NormKind norm;
  bool transposed;                // linear layers are stored [input, output]
  bool scaled_residual;           // random initial output projections shrink with the depth
  bool predicts_ahead;            // may have MTP modules (ModelConfig::mtp_layers)
  bool output_projection_biased;  // attention_bias covers the output projection too
  const char* table;
  const char* positions;  // learned; null: rotary
  const char* layers;
  const char* attention_norm;
  const char* fused;  // query, key and value as one matrix; null: the next three
  const char* query;
  const char* key;
  const char* value;
  const char* attention_output;
  const char* feed_forward_norm;
  const char* up;
  const char* gate;  // null: no gate
  const char* down;
  const char* final_norm;
  const char* head;
  // Sets the settings that the family fixes. Derives settings that are 0 from others.
  void (*complete)(ModelConfig&);
  // Read and write the settings that not all families have (hugging_face.cpp has the common ones).
  void (*read)(ConfigJson&, ModelConfig&);
  void (*write)(const ModelConfig&, nlohmann::json&);
};

extern const Family kGpt2, kLlama, kQwen2;

std::span<const Family* const> families();
// Throws Error that names the known families.
const Family& family(const std::string& name);

}  // namespace espalier::torchrt
