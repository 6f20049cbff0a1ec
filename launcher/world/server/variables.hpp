// Lists of environment variables, "NAME=value".
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// `base` without the names that `over` has, and then `over`. Of two variables of one name many programs see the first:
// so each name appears once.
std::vector<std::string> merged(const std::vector<std::string>& base, const std::vector<std::string>& over);

}  // namespace espalier::launcher
