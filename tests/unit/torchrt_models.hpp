// Small models for the runtime's tests.
#pragma once

#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

inline ModelConfig small_model(const std::string& family, bool tied, int layers = 3) {
  ModelConfig model;
  model.family = family;
  model.layers = layers;
  model.hidden = 24;
  model.heads = 4;
  model.key_value_heads = family == "gpt2" ? 4 : 2;
  model.intermediate = 40;
  model.sequence = 10;
  model.vocabulary = 33;
  model.tied_embeddings = tied;
  return completed(model);
}

}  // namespace espalier::torchrt
