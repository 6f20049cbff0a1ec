// A very small model of any family, for the runtime's tests.
#pragma once

#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

inline ModelConfig tiny_model(const std::string& family, bool tied) {
  ModelConfig model;
  model.family = family;
  model.layers = 3;
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
