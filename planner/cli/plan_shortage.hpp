// Why there is no plan, and what would help.
#pragma once

#include <span>
#include <string>

#include "planner/cli/plan_job_file.hpp"
#include "planner/core/solver/sketch.hpp"

namespace espalier::cli {

// One sentence. Where memory is short it says how much each GPU would need.
std::string shortage(const Problem& problem, std::span<const Piece> available, const PlanJob& job);

}  // namespace espalier::cli
