// Explains why there is no plan, with remedies.
#pragma once

#include <span>
#include <string>

#include "planner/cli/plan_job_file.hpp"
#include "planner/core/solver/sketch.hpp"

namespace espalier::cli {

// One sentence. If memory is short, it says how much each GPU would need.
std::string shortage(const Problem& problem, std::span<const Piece> available, const PlanJob& job);

}  // namespace espalier::cli
