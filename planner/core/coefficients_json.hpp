// A job's coefficients as JSON. The planner stores and reports them in this form; the simulator
// reads it.
#pragma once

#include "planner/core/json.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"

namespace espalier {

// GPU types are stored by name in an object of their own: "gpu": {"h100": {...}}. Units are those
// of coefficients.hpp.
Json coefficients_json(const JobCoefficients& job, const Hardware& hardware);

// Reads the types of `hardware`, in its order. Other types in `json` are left out. Throws Error,
// naming the field, when
// - a field is missing, unknown or of the wrong kind,
// - a number is negative or not finite,
// - a computation takes no time, or an overlap is below 1,
// - a type of `hardware` has no entry.
JobCoefficients coefficients_from(const Json& json, const Hardware& hardware);

}  // namespace espalier
