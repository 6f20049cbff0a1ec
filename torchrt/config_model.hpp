// The [model] section: a family and its sizes, or a Hugging Face config.json.
#pragma once

#include <string>

#include "torchrt/model/model_config.hpp"
#include "torchrt/toml_reader.hpp"

namespace espalier::torchrt {

// A missing size gets the value that the family's Hugging Face configuration class would derive.
// Throws Error.
void read_model(TomlSection section, ModelConfig& model, std::string& weights);

}  // namespace espalier::torchrt
