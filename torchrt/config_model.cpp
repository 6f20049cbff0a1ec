#include "torchrt/config_model.hpp"

#include "torchrt/model/hugging_face.hpp"

namespace espalier::torchrt {

namespace {

constexpr int kMostLayers = 10'000, kMostHidden = 1 << 16, kMostHeads = 1 << 12, kMostSequence = 1 << 20;
constexpr int kMostVocabulary = 1 << 24, kMostIntermediate = 1 << 20;

bool gpt2(const ModelConfig& model) { return model.family == "gpt2"; }

// Keys that would be without effect are refused like unknown ones.
void refuse_foreign(TomlSection& section, const ModelConfig& model) {
  if (gpt2(model)) {
    for (const char* key : {"rope_theta", "key_value_heads"})
      if (section.has(key)) section.fail(key, "is not a key of family \"gpt2\"; remove it");
  } else {
    for (const char* key : {"embedding_dropout", "residual_dropout"})
      if (section.has(key)) section.fail(key, "is not a key of family \"" + model.family + "\"; remove it");
  }
}

void read_sizes(TomlSection& section, ModelConfig& model) {
  section.choose<std::string>("family", model.family, {{"gpt2", "gpt2"}, {"llama", "llama"}, {"qwen2", "qwen2"}});
  section.require("layers", model.layers, 1, kMostLayers);
  section.require("hidden", model.hidden, 1, kMostHidden);
  section.require("heads", model.heads, 1, kMostHeads);
  if (model.hidden % model.heads != 0)
    section.fail("heads", "does not divide hidden = " + std::to_string(model.hidden) + "; choose a divisor");
  model.head_size = model.hidden / model.heads;
  if (!gpt2(model) && model.head_size % 2 != 0)
    section.fail("heads",
                 "makes heads of " + std::to_string(model.head_size) + ", which rotary positions cannot halve");
  model.key_value_heads = model.heads;
  section.read("vocabulary", model.vocabulary, 1, kMostVocabulary);
  // LLaMA's rule for its gated feed-forward: two thirds of 4 x hidden, up to a multiple of 256.
  model.intermediate = gpt2(model) ? 4 * model.hidden : (8 * model.hidden / 3 + 255) / 256 * 256;
  section.read("intermediate", model.intermediate, 1, kMostIntermediate);
  model.norm_epsilon = gpt2(model) ? 1e-5 : 1e-6;
  section.read("norm_epsilon", model.norm_epsilon, 1e-12, 1);
  model.tied_embeddings = gpt2(model);
  section.read("tied_embeddings", model.tied_embeddings);
  model.attention_bias = model.family != "llama";
  model.mlp_bias = gpt2(model);
  refuse_foreign(section, model);
  section.read("rope_theta", model.rope_theta, 1, 1e12);
  section.read("key_value_heads", model.key_value_heads, 1, kMostHeads);
  if (model.heads % model.key_value_heads != 0)
    section.fail("key_value_heads", "does not divide heads = " + std::to_string(model.heads) + "; choose a divisor");
  model.positions = model.sequence;
}

}  // namespace

void read_model(TomlSection section, ModelConfig& model, std::string& weights) {
  std::string hugging_face;
  section.require("sequence", model.sequence, 1, kMostSequence);
  section.read("config", hugging_face);
  section.read("weights", weights);
  if (hugging_face.empty()) {
    read_sizes(section, model);
  } else {
    for (const char* key : {"family", "layers", "hidden", "heads", "key_value_heads", "intermediate", "vocabulary",
                            "tied_embeddings", "rope_theta", "norm_epsilon"})
      if (section.has(key)) section.fail(key, "is decided by model.config = \"" + hugging_face + "\"; remove it");
    model = read_hugging_face_config(hugging_face, model.sequence);
    refuse_foreign(section, model);
  }
  section.read("embedding_dropout", model.embedding_dropout, 0, 0.99);
  section.read("residual_dropout", model.residual_dropout, 0, 0.99);
  section.read("attention_dropout", model.attention_dropout, 0, 0.99);
  section.finish();
}

}  // namespace espalier::torchrt
