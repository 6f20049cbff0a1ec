// Converts Slurm's "n[1-3,7]" to names and back. Uses libslurm: link with -lslurm.
#pragma once

#include <string>
#include <vector>

namespace espalier {

// The names in the list's order. A null or empty text gives an empty list. So does a text that
// libslurm refuses. Throws Error for more than kMaxHosts names (text_limits.hpp).
std::vector<std::string> expand_hosts(const char* text);

// "n[1-3,7]": sorted, each name once.
std::string fold_hosts(const std::vector<std::string>& names);

}  // namespace espalier
