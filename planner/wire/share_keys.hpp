// The section [share] of espalier.toml.
#pragma once

#include "planner/core/share_rules.hpp"
#include "planner/wire/toml_keys.hpp"

namespace espalier::wire {

// Throws Error as read_toml_table() does.
void read_share_section(const std::string& path, const toml::value& content, ShareRules& out,
                        const std::string& manual);

}  // namespace espalier::wire
