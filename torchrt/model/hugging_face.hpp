// Models by Hugging Face's config.json, both ways. Free of torch.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

// gpt2, llama and qwen2, by "model_type"; `sequence` is the length to train on. Throws Error naming file and key when
// something is missing, ill-typed, or asks for what this runtime does not compute.
ModelConfig read_hugging_face_config(const std::string& json_path, int sequence);

// A config.json that `transformers` loads the written weights with. `dtype`: "float32" or "bfloat16".
nlohmann::json hugging_face_config(const ModelConfig& model, const std::string& dtype = "float32");

}  // namespace espalier::torchrt
