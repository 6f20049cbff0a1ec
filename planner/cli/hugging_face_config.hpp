// Reads the shape of a model from Hugging Face's config.json.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::cli {

struct HuggingFaceModel {
  ModelShape shape;  // batch and micro-batches stay 0; sequence is the longest that the model allows
  bool tied = false;
};

// Accepts gpt2, llama and qwen2, by "model_type". Throws Error, naming the file and the key.
HuggingFaceModel read_hugging_face_config(const std::string& path);

}  // namespace espalier::cli
