// `espalier-launch conform`: see espalier-launch(1).
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// Returns the exit code: 0 when no case failed. `self`: path of espalier-launch. Throws Error on bad options.
int play_conformance(const std::vector<std::string>& words, const std::string& self);

}  // namespace espalier::launcher
