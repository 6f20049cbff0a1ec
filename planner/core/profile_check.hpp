// Whether a profile can be what a job measured of the plan that it runs. For all who get profiles from others.
#pragma once

#include <string>

#include "planner/core/model/profile.hpp"

namespace espalier {

// Why `profile` cannot be one of a job that trains `shape` on `plan`, as "profile: ..."; empty: it can. Figures must be
// finite, not negative and below what any machine reaches; every replica is reported at most once.
std::string unfit(const Profile& profile, const Plan& plan, const ModelShape& shape);

}  // namespace espalier
