// The training of `espalier-bench pause`, and what its hand-offs cost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "torchrt/model/model_config.hpp"

namespace espalier::bench {

// A GPT of 12 layers, the least wide one whose training state has so many bytes.
torchrt::ModelConfig pause_model(std::int64_t state_bytes);
// Parameters and both moments, once each.
std::int64_t pause_state_bytes(const torchrt::ModelConfig& model);
// For --set: few tokens, so that steps are short; micro-batches of one sample, so that growth means more stages.
std::vector<std::string> pause_settings(const torchrt::ModelConfig& model);

// Of what tests/bench/pause/measure.sh left: medians over the grows and over the shrinks, times in ms. Throws Error
// when none was committed.
nlohmann::json pause_figures(const std::filesystem::path& folder);

}  // namespace espalier::bench
