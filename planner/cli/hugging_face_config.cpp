#include "planner/cli/hugging_face_config.hpp"

#include <fstream>

#include "planner/core/fields.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::cli {
namespace {

int positive(const Fields& fields, const std::string& path, const char* name) {
  int value = 0;
  fields.get(name, value);
  if (value < 1) throw Error(path + "." + name + ": must be at least 1");
  return value;
}

constexpr int kMostMtpLayers = 64;

int positive_or(const Fields& fields, const std::string& path, const char* name, int otherwise) {
  return fields.has(name) ? positive(fields, path, name) : otherwise;
}

// Both limit the TP degree, as in the training.
void read_widths(const Fields& fields, const std::string& path, ModelShape& shape) {
  shape.key_value_heads = positive_or(fields, path, "num_key_value_heads", shape.heads);
  if (shape.heads % shape.key_value_heads != 0)
    throw Error(path + ".num_key_value_heads: must divide num_attention_heads, " + std::to_string(shape.heads));
  shape.intermediate = positive(fields, path, "intermediate_size");
}

}  // namespace

HuggingFaceModel read_hugging_face_config(const std::string& path) {
  std::ifstream file = open_input(path);
  if (!file) throw Error(path + ": cannot be read; give the path of a model's config.json");
  nlohmann::json json;
  try {
    json = parse_json(file);
  } catch (const std::exception& error) {
    throw Error(path + ": is not JSON: " + error.what());
  }
  const Fields fields(json, path);
  HuggingFaceModel model;
  ModelShape& shape = model.shape;
  fields.get("model_type", shape.family);
  const bool gpt2 = shape.family == "gpt2";
  if (!gpt2 && shape.family != "llama" && shape.family != "qwen2")
    throw Error(path + ".model_type: \"" + shape.family + "\" is not known; use gpt2, llama or qwen2");
  shape.layers = positive(fields, path, gpt2 ? "n_layer" : "num_hidden_layers");
  shape.hidden = positive(fields, path, gpt2 ? "n_embd" : "hidden_size");
  shape.heads = positive(fields, path, gpt2 ? "n_head" : "num_attention_heads");
  shape.sequence = positive(fields, path, gpt2 ? "n_positions" : "max_position_embeddings");
  shape.vocabulary = positive(fields, path, "vocab_size");
  model.tied = gpt2;  // Hugging Face's default for each family
  if (fields.has("tie_word_embeddings")) fields.get("tie_word_embeddings", model.tied);
  // Multi-token prediction: what plans count as layers are the modules, too.
  if (!gpt2 && fields.has("num_nextn_predict_layers")) {
    fields.get("num_nextn_predict_layers", shape.mtp_layers);
    if (shape.mtp_layers < 0 || shape.mtp_layers > kMostMtpLayers)
      throw Error(path + ".num_nextn_predict_layers: must lie between 0 and " + std::to_string(kMostMtpLayers));
    shape.layers += shape.mtp_layers;
  }
  if (!gpt2) read_widths(fields, path, shape);
  if (const char* key = gpt2 ? "attn_pdrop" : "attention_dropout"; fields.has(key)) {
    double dropout = 0;
    fields.get(key, dropout);
    shape.keeps_scores = dropout > 0;
  }
  return model;
}

}  // namespace espalier::cli
