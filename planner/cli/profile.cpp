// `espalier profile`: espalier-launch submits the profile jobs, as it submits extensions.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "planner/cli/commands.hpp"

namespace espalier::cli {
namespace {

std::string launcher_beside() {
  char own[PATH_MAX] = "";
  const ssize_t size = ::readlink("/proc/self/exe", own, sizeof own - 1);
  const std::string self(own, size > 0 ? static_cast<std::size_t>(size) : 0);
  return self.substr(0, self.rfind('/') + 1) + "espalier-launch";
}

}  // namespace

void profile(const std::vector<std::string>& words) {
  const std::string launcher = launcher_beside();
  std::vector<std::string> command{launcher, "profile"};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(launcher.c_str(), arguments.data());
  throw Error("profile: " + launcher + ": cannot be executed: " + std::strerror(errno) +
              "; it belongs beside espalier");
}

}  // namespace espalier::cli
