// Exports a checkpoint's parameters as a model that other programs load.
#pragma once

#include <string>

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// Writes safetensors in training.dtype and config.json into `folder`, and makes the folder if it is
// missing. `from`: a checkpoint's folder; empty: the newest good checkpoint in
// checkpoint.directory. Prints one line. Throws Error.
void export_model(const Config& config, const std::string& from, const std::string& folder);

}  // namespace espalier::torchrt
