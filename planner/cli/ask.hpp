// Asks the planner one question.
#pragma once

#include <string>

#include "planner/core/json.hpp"
#include "planner/wire/config.hpp"

namespace espalier::cli {

// Asks by the local socket if it exists, else by TCP and MUNGE at the planner's host. Throws Error
// with the planner's own refusal, or with advice when the planner cannot be reached within 5 s.
Json ask(const wire::Config& config, const std::string& what, const Json& arguments = Json::object());

// The same by TCP and MUNGE also where there is a local socket, as launchers ask. Of short answers only.
Json ask_by_network(const wire::Config& config, const std::string& what);

}  // namespace espalier::cli
