// Profiles of single stages: what any user's `stage_report` brings, and files of `espalier plan --profiles`.
#include "planner/core/error.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/core/stage_profile_json.hpp"
#include "planner/core/text_limits.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void stage_profile(std::string_view input) {
  try {
    const StageProfile read = stage_profile_from(try_json(input));
    // What was read and is written again is read as the same.
    const std::string once = stage_profile_json(read).dump(-1, ' ', false, Json::error_handler_t::replace);
    const StageProfile again = stage_profile_from(parse_json(once));
    require(stage_profile_json(again).dump(-1, ' ', false, Json::error_handler_t::replace) == once);
    Profile profile = profile_of({read});
    profile.step = 1;
    require(unfit(profile, profile.plan, profile.shape).find("not in the plan") == std::string::npos);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
