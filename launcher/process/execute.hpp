// Becoming another program.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// execvp; returns 127 after a message when it fails, as a shell would.
int replace_by(const std::vector<std::string>& command);

// 0, or the error number that executing `program` (looked up in PATH when it has no slash) would end in.
int execution_error(const std::string& program);

}  // namespace espalier::launcher
