// Files that a person names.
#pragma once

#include <fstream>
#include <string>

namespace espalier {

bool is_folder(const std::string& path);

// The stream of a file; one that is not there or cannot be opened fails, and errno tells why. So does a folder
// (EISDIR), which a stream would open, and then find empty or endlessly long.
std::ifstream open_input(const std::string& path);

}  // namespace espalier
