// What the planner says of a job's deadline before generation 0, in words for its user.
#pragma once

#include <string>

#include "planner/wire/start_messages.hpp"

namespace espalier::launcher {

struct DeadlineVerdict {
  bool refused = false;   // the job ends
  bool doubtful = false;  // the deadline will be missed, or it cannot be told
  std::string text;       // one line
};

// `now`, `deadline`: seconds since the epoch; times are written in local time. `goes_on`: training goes on from an
// earlier state, so that fewer steps are left than the forecast counts: nothing is refused then.
// A job is refused where what a job like it measured says that no plan on any GPUs it may have can be in time
// (DeadlineForecast::least_end). What the search for plans did not find is no reason, and of data sheets, which are a
// rough guide, no job is refused.
DeadlineVerdict judge_deadline(const wire::DeadlineChecked& checked, double deadline, double now, bool goes_on);

// "deadline 2026-11-26T08:00:00: could not be checked: the planner does not answer"
std::string unchecked_deadline(double deadline, const std::string& why);

}  // namespace espalier::launcher
