// The profile of one stage as JSON: what `espalier-train --profile-plan` prints and `espalier plan --profiles` reads.
#pragma once

#include "planner/core/json.hpp"
#include "planner/core/model/stage_profile.hpp"

namespace espalier {

// Also has the sums over the stage's units, for people.
Json stage_profile_json(const StageProfile& profile);
// Throws Error, naming the field, when one is missing, unknown, of the wrong kind, negative or not finite, and when the
// profile's units are not those of its stage.
StageProfile stage_profile_from(const Json& json);

}  // namespace espalier
