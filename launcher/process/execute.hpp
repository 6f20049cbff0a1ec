// Executes another program in place of this one.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// Calls execvp. If that fails, prints a message and returns an exit code as a shell would: 127 if there is no such
// program, else 126.
int replace_by(const std::vector<std::string>& command);

// The error number with which executing `program` would fail; 0: it would not. `program` is looked up in PATH if it has
// no slash.
int execution_error(const std::string& program);

}  // namespace espalier::launcher
