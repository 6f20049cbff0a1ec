// What is stored of a job's coefficients beside them, so that they are not taken for more than they are later. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/json.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"
#include "planner/daemon/knowledge.hpp"

namespace espalier {

// coefficients_json(), and as "bandwidths" those against which sums of gradients were inverted.
Json kept_coefficients(const JobCoefficients& job, const Hardware& hardware);

// As they are shown, and as coefficients_from() reads them.
Json shown_coefficients(Json kept);

// Whether the cluster still has `bandwidths`. Kinds of nodes may have joined. Null, as in records of older versions:
// they count as unchanged. Throws where the record is none of kept_coefficients().
bool kept_with(const Json& bandwidths, const Hardware& hardware);

// Leaves the rows of jobs under `driver`, or, where that is not known yet (empty), under the driver of the newest row
// that tells one; and the rows that tell none.
void keep_one_driver(std::vector<Knowledge>& rows, std::string driver);

}  // namespace espalier
