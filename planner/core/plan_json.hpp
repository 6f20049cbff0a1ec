// Plans in messages between programs of different versions. Files, and messages inside of one build, are read strictly
// (planner/core/json.hpp).
#pragma once

#include "planner/core/json.hpp"
#include "planner/core/plan.hpp"

namespace espalier {

enum class UnknownFields { refuse, pass };

// Throws Error that names the field that is missing, of a wrong kind or, with `refuse`, unknown.
Plan read_plan(const Json& json, UnknownFields unknown);

}  // namespace espalier
