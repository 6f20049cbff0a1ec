// Slurm's "n[1-3,7]" into names.
#pragma once

#include <string>
#include <vector>

namespace espalier {

// In the list's order. A null or empty text gives nothing.
std::vector<std::string> expand_hosts(const char* text);

}  // namespace espalier
