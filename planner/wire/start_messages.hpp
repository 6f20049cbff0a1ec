// Messages about the plan of generation 0, besides `propose`. See messages.hpp for how they become frames.
#pragma once

#include <string>

#include "planner/core/schedule/deadline_forecast.hpp"

namespace espalier::wire {

// From the planner to a launcher that waits for the plan of generation 0: none will come, the
// launcher chooses by itself. `reason` for people.
struct Unplanned {
  static constexpr const char* type = "unplanned";
  std::string reason;
};

// From the planner to a launcher whose job has a deadline, before the plan of generation 0.
struct DeadlineChecked {
  static constexpr const char* type = "deadline_checked";
  bool known = false;         // the forecast holds
  bool refuses_late = false;  // objective.late_deadlines = "refuse"
  DeadlineForecast forecast;
};

}  // namespace espalier::wire
