// The settings in which a checkpoint and the configuration that resumes it must agree. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// All settings that decide the meaning of the state or of the position in the data. Precision,
// layout and learning rate are left out: they may change.
nlohmann::json checkpoint_facts(const Config& config);

// Both throw Error that names the first key whose value differs. `checkpoint` is the checkpoint's
// name. check_model() compares the model alone: that is enough to read parameters. check_facts()
// compares everything: training on needs that.
void check_model(const nlohmann::json& stored, const Config& config, const std::string& checkpoint);
void check_facts(const nlohmann::json& stored, const Config& config, const std::string& checkpoint);

}  // namespace espalier::torchrt
