// What a checkpoint and the configuration that resumes it must agree on. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// Everything that decides the meaning of the state and of the position in the data; precision, layout and learning rate
// may change.
nlohmann::json checkpoint_facts(const Config& config);

// Both throw Error naming the first key whose value differs; `checkpoint` is the checkpoint's name. To read its
// parameters it is enough that the model agrees; to train on, everything must.
void check_model(const nlohmann::json& stored, const Config& config, const std::string& checkpoint);
void check_facts(const nlohmann::json& stored, const Config& config, const std::string& checkpoint);

}  // namespace espalier::torchrt
