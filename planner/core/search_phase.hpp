// How an outcome tells that a job's pipeline runs lists that were searched for it.
#pragma once

namespace espalier {

// The phase of such an outcome (wire::Outcome::phases_ms) that the search took, beside training. No other outcome has
// it.
inline constexpr const char* kSearchPhase = "search";

}  // namespace espalier
