// What the families with rotary positions and gated feed-forwards share in config.json. Pure.
#pragma once

#include "torchrt/model/family.hpp"

namespace espalier::torchrt {

void complete_rotary(ModelConfig& model);
void read_rotary(ConfigJson& json, ModelConfig& model);
void write_rotary(const ModelConfig& model, nlohmann::json& json);

}  // namespace espalier::torchrt
