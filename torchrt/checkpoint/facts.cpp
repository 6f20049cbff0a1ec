#include "torchrt/checkpoint/facts.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

nlohmann::json checkpoint_facts(const Config& config) {
  const ModelConfig& model = config.model;
  nlohmann::json facts = {{"model.family", model.family},
                          {"model.layers", model.layers},
                          {"model.mtp_layers", model.mtp_layers},
                          {"model.hidden", model.hidden},
                          {"model.heads", model.heads},
                          {"model.key_value_heads", model.key_value_heads},
                          {"model.head_size", model.head_size},
                          {"model.intermediate", model.intermediate},
                          {"model.vocabulary", model.vocabulary},
                          {"model.positions", model.positions},
                          {"model.sequence", model.sequence},
                          {"model.tied_embeddings", model.tied_embeddings},
                          {"model.attention_bias", model.attention_bias},
                          {"model.mlp_bias", model.mlp_bias},
                          {"model.activation", static_cast<int>(model.activation)},
                          {"model.norm_epsilon", model.norm_epsilon},
                          {"model.rope_theta", model.rope_theta},
                          {"model.rope_scaling", model.rope_scaling.kind},
                          {"training.global_batch", config.training.global_batch},
                          {"training.seed", config.training.seed}};
  if (model.rope_scaling.kind != "none") facts["model.rope_scaling.factor"] = model.rope_scaling.factor;
  // The sums of a TP group are part of a sample's arithmetic.
  if (config.training.accuracy == Accuracy::bitwise) facts["parallel.tp"] = std::max(1, config.parallel.limits.tp);
  return facts;
}

namespace {

void check(const nlohmann::json& stored, const Config& config, const std::string& checkpoint, const char* section) {
  const nlohmann::json wanted = checkpoint_facts(config);
  for (const auto& [key, value] : wanted.items()) {
    const nlohmann::json other = stored.value(key, nlohmann::json());
    if (key.rfind(section, 0) != 0 || other == value) continue;
    if (key == "parallel.tp" && other.is_null()) continue;  // written before it was recorded, or relaxed
    if (key == "model.mtp_layers" && other.is_null() && value == 0) continue;  // written before it was recorded
    throw Error(checkpoint + ": was written with " + key + " = " + other.dump() + ", " + config.path + " says " +
                value.dump() + "; set it back, or choose another checkpoint.directory");
  }
}

}  // namespace

void check_model(const nlohmann::json& stored, const Config& config, const std::string& checkpoint) {
  check(stored, config, checkpoint, "model.");
}

void check_facts(const nlohmann::json& stored, const Config& config, const std::string& checkpoint) {
  check(stored, config, checkpoint, "");
}

}  // namespace espalier::torchrt
