#include "torchrt/config_model.hpp"

#include "torchrt/model/family.hpp"
#include "torchrt/model/hugging_face.hpp"

namespace espalier::torchrt {

namespace {

constexpr int kMostLayers = 10'000, kMostHidden = 1 << 16, kMostHeads = 1 << 12, kMostSequence = 1 << 20;
constexpr int kMostMtpLayers = 64;
constexpr int kMostVocabulary = 1 << 24, kMostIntermediate = 1 << 20;

bool rotary(const ModelConfig& model) { return family(model.family).positions == nullptr; }

// Keys that would be without effect are refused like unknown ones.
void refuse_foreign(TomlSection& section, const ModelConfig& model) {
  const auto refuse = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (section.has(key)) section.fail(key, "is no key of family \"" + model.family + "\"; remove it");
  };
  if (rotary(model)) refuse({"embedding_dropout", "residual_dropout"});
  else refuse({"rope_theta", "key_value_heads"});
}

void read_family(TomlSection& section, std::string& name) {
  section.read("family", name);
  std::string known;
  for (const Family* each : families()) {
    if (name == each->name) return;
    known += (known.empty() ? "\"" : ", \"") + std::string(each->name) + "\"";
  }
  section.fail("family", "is \"" + name + "\"; known are " + known);
}

void read_sizes(TomlSection& section, ModelConfig& model) {
  read_family(section, model.family);
  section.require("layers", model.layers, 1, kMostLayers);
  section.require("hidden", model.hidden, 1, kMostHidden);
  section.require("heads", model.heads, 1, kMostHeads);
  if (model.hidden % model.heads != 0)
    section.fail("heads", "does not divide hidden = " + std::to_string(model.hidden) + "; choose a divisor");
  if (rotary(model) && model.hidden / model.heads % 2 != 0)
    section.fail("heads", "makes heads of " + std::to_string(model.hidden / model.heads) +
                              ", which cannot be rotated in pairs; choose an even quotient");
  refuse_foreign(section, model);
  section.read("key_value_heads", model.key_value_heads, 1, kMostHeads);
  if (model.key_value_heads != 0 && model.heads % model.key_value_heads != 0)
    section.fail("key_value_heads", "does not divide heads = " + std::to_string(model.heads) + "; choose a divisor");
  section.read("intermediate", model.intermediate, 1, kMostIntermediate);
  section.read("vocabulary", model.vocabulary, 1, kMostVocabulary);
  model.norm_epsilon = rotary(model) ? 1e-6 : 1e-5;
  section.read("norm_epsilon", model.norm_epsilon, 1e-12, 1);
  model.tied_embeddings = !rotary(model);
  section.read("tied_embeddings", model.tied_embeddings);
  section.read("rope_theta", model.rope_theta, 1, 1e12);
  model = completed(model);
}

void read_mtp(TomlSection& section, ModelConfig& model) {
  for (const char* key : {"mtp_layers", "mtp_weight"})
    if (section.has(key) && !family(model.family).predicts_ahead)
      section.fail(key, "is no key of family \"" + model.family + "\", which has no multi-token prediction; remove it");
  const int given = model.mtp_layers;
  section.read("mtp_layers", model.mtp_layers, 0, kMostMtpLayers);
  if (given > 0 && model.mtp_layers != given)
    section.fail("mtp_layers", "is " + std::to_string(model.mtp_layers) + ", model.config says " +
                                   std::to_string(given) + "; remove it");
  if (model.mtp_layers >= model.sequence)
    section.fail("mtp_layers", "is " + std::to_string(model.mtp_layers) +
                                   ", must be less than sequence = " + std::to_string(model.sequence));
  if (section.has("mtp_weight") && model.mtp_layers == 0)
    section.fail("mtp_weight",
                 "is the weight of the loss of MTP modules, and mtp_layers says that there are none; "
                 "remove it");
  section.read("mtp_weight", model.mtp_weight, 0, kMostMtpWeight);
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
  read_mtp(section, model);
  section.read("embedding_dropout", model.embedding_dropout, 0, 0.99);
  section.read("residual_dropout", model.residual_dropout, 0, 0.99);
  section.read("attention_dropout", model.attention_dropout, 0, 0.99);
  section.finish();
}

}  // namespace espalier::torchrt
