// The message with the grants of extensions. See messages.hpp for how it becomes a frame.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier::wire {

// From the planner to a launcher, before the `propose` of the same decision, where extensions need grants
// (planner/wire/grant.h). `grants`: one for each of the decision's `acquire`.
struct Grants {
  static constexpr const char* type = "grants";
  std::int64_t decision = 0;
  std::vector<std::string> grants;
};

}  // namespace espalier::wire
