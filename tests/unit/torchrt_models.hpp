// Small models of every family, for tests.
#pragma once

#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

inline ModelConfig small_model(const std::string& family, bool tied = false) {
  ModelConfig model;
  model.family = family;
  model.layers = 3;
  model.hidden = 48;
  model.heads = 12;
  model.key_value_heads = family == "gpt2" ? 12 : 6;
  model.intermediate = 96;
  model.sequence = 16;
  model.vocabulary = 101;  // divisible by nothing
  model.tied_embeddings = tied;
  return completed(model);
}

}  // namespace espalier::torchrt
