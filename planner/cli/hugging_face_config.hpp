// The shape of a model from Hugging Face's config.json.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::cli {

struct HuggingFaceModel {
  ModelShape shape;  // batch and micro-batches stay 0; sequence is the longest that the model allows
  bool tied = false;
  // How many parameters a layer really has, relative to what the planner's formulas say of its shape
  // (model_sizes.hpp): 1 but for other widths of the MLP, or fewer key and value heads, than its family's.
  double layer_scale = 1;
};

// gpt2, llama and qwen2, by "model_type". Throws Error that names the file and the key.
HuggingFaceModel read_hugging_face_config(const std::string& path);

}  // namespace espalier::cli
