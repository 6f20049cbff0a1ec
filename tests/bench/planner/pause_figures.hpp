// The training of `espalier-bench pause` and the cost of its hand-offs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "torchrt/model/model_config.hpp"

namespace espalier::bench {

// A GPT of 12 layers. It is the least wide one whose training state has `state_bytes` bytes.
torchrt::ModelConfig pause_model(std::int64_t state_bytes);
// Bytes of parameters and both moments, once each.
std::int64_t pause_state_bytes(const torchrt::ModelConfig& model);
// Settings for --set. Few tokens make steps short. Micro-batches of one sample make growth add
// stages.
std::vector<std::string> pause_settings(const torchrt::ModelConfig& model);

// Reads the files of tests/bench/pause/measure.sh. Gives medians over the grows and over the
// shrinks; times in ms. Throws Error when no hand-off was committed.
nlohmann::json pause_figures(const std::filesystem::path& folder);

}  // namespace espalier::bench
