// A job's coefficients as JSON: what the planner keeps and tells of a job, and what the simulator takes.
#pragma once

#include "planner/core/json.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"

namespace espalier {

// GPU types by name, in an object of its own: "gpu": {"h100": {...}}. Units as in coefficients.hpp.
Json coefficients_json(const JobCoefficients& job, const Hardware& hardware);

// For the types of `hardware`, in its order; others are left out. Throws Error naming the field: missing, unknown, not
// of its kind, negative or no finite number, a computation that takes no time, an overlap below 1, or nothing of a type
// that `hardware` has.
JobCoefficients coefficients_from(const Json& json, const Hardware& hardware);

}  // namespace espalier
