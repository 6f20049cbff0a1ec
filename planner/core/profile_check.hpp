// Checks whether a profile can come from a job's present plan. For all code that receives profiles
// from other processes.
#pragma once

#include <string>

#include "planner/core/model/profile.hpp"

namespace espalier {

// Why `profile` cannot come from a job that trains `shape` on `plan`, as "profile: ..."; empty when
// it can. Figures must be finite, not negative and below a limit that no machine reaches. A replica
// may be reported at most once.
std::string unfit(const Profile& profile, const Plan& plan, const ModelShape& shape);

}  // namespace espalier
