// The section [objective] of espalier.toml.
#pragma once

#include "planner/core/schedule/objective.hpp"
#include "planner/wire/toml_keys.hpp"

namespace espalier::wire {

// `refuses_late`: late_deadlines = "refuse". Throws Error as read_toml_table() does.
void read_objective_section(const std::string& path, const toml::value& content, Objective& out, bool& refuses_late,
                            const std::string& manual);

}  // namespace espalier::wire
