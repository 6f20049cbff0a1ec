// One question to the planner.
#pragma once

#include <string>

#include "planner/core/json.hpp"
#include "planner/wire/config.hpp"

namespace espalier::cli {

// By the local socket where it exists, else by TCP and MUNGE to the planner's host. Throws Error with the planner's own
// refusal, or with what to check when it cannot be reached within 5 s.
Json ask(const wire::Config& config, const std::string& what, const Json& arguments = Json::object());

}  // namespace espalier::cli
