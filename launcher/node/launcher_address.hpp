// Where processes that a launcher has started find it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace espalier::launcher {

// From ESPALIER_LAUNCHER. Throws Error.
std::pair<std::string, std::uint16_t> launcher_address();

}  // namespace espalier::launcher
