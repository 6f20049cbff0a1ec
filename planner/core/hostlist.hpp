// Converts Slurm's "n[1-3,7]" to names and back. Uses libslurm: link with -lslurm.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planner/core/text_limits.hpp"

namespace espalier {

// The names in the list's order. A null or empty text gives an empty list. So does a text that
// libslurm refuses. A text with more than `most` names throws Error before libslurm sees it.
std::vector<std::string> expand_hosts(const char* text, std::size_t most = kMaxHosts);

// "n[1-3,7]": sorted, each name once.
std::string fold_hosts(const std::vector<std::string>& names);

}  // namespace espalier
