// Messages about the plan of generation 0, besides `propose`. See messages.hpp for how they become frames.
#pragma once

#include <string>

namespace espalier::wire {

// From the planner to a launcher that waits for the plan of generation 0: none will come, the
// launcher chooses by itself. `reason` for people.
struct Unplanned {
  static constexpr const char* type = "unplanned";
  std::string reason;
};

}  // namespace espalier::wire
