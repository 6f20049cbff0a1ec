#include "launcher/process/execute.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace espalier::launcher {

int replace_by(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  std::fprintf(stderr, "espalier: launch: %s: cannot be executed: %s\n", arguments[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

int execution_error(const std::string& program) {
  const auto check = [](const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return errno;
    if (S_ISDIR(status.st_mode) || ::access(path.c_str(), X_OK) != 0) return EACCES;
    return 0;
  };
  if (program.find('/') != std::string::npos) return check(program);
  const char* variable = std::getenv("PATH");
  std::istringstream path(variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable);
  int error = ENOENT;
  for (std::string directory; std::getline(path, directory, ':');) {
    const int found = check((directory.empty() ? "." : directory) + "/" + program);
    if (found == 0) return 0;
    if (found == EACCES) error = EACCES;
  }
  return error;
}

}  // namespace espalier::launcher
