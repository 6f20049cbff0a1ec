// Reads the shape of a model from Hugging Face's config.json.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::cli {

struct HuggingFaceModel {
  ModelShape shape;  // batch and micro-batches stay 0; sequence is the longest that the model allows
  bool tied = false;
  // A layer's real number of parameters, relative to the planner's formula for its family
  // (model_sizes.hpp). It differs from 1 if the MLP's width or the number of key and value heads
  // differs from the family's.
  double layer_scale = 1;
};

// Accepts gpt2, llama and qwen2, by "model_type". Throws Error, naming the file and the key.
HuggingFaceModel read_hugging_face_config(const std::string& path);

}  // namespace espalier::cli
