// Which of several triggers a decision is recorded under: while Slurm is being asked, they are merged into one. Pure.
#pragma once

#include <optional>

#include "planner/core/decision.hpp"

namespace espalier {

// The stronger of the two, `a` where they are equally strong. Without `a`: `b`.
Trigger stronger(std::optional<Trigger> a, Trigger b);

}  // namespace espalier
