// Slurm's "n[1-3,7]" into names and back, by libslurm: whoever uses it links with -lslurm.
#pragma once

#include <string>
#include <vector>

namespace espalier {

// In the list's order. A null or empty text gives nothing, and so does one that libslurm refuses.
std::vector<std::string> expand_hosts(const char* text);

// "n[1-3,7]": sorted, each name once.
std::string fold_hosts(const std::vector<std::string>& names);

}  // namespace espalier
