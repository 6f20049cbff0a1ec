// Reads and writes Hugging Face's config.json. Free of torch.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

// Reads a gpt2, llama or qwen2 model, by "model_type". `sequence` is the training length. Throws
// Error that names file and key when a setting is missing, ill-typed or not supported by this
// runtime.
ModelConfig read_hugging_face_config(const std::string& json_path, int sequence);

// A config.json with which `transformers` loads the written weights. `dtype`: "float32" or
// "bfloat16".
nlohmann::json hugging_face_config(const ModelConfig& model, const std::string& dtype = "float32");

}  // namespace espalier::torchrt
