#include "torchrt/spare.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "torchrt/fork_server.hpp"

extern char** environ;

namespace espalier::torchrt {
namespace {

std::string read_all(int socket) {
  std::string text;
  char block[16384];
  for (;;) {
    const ssize_t count = ::read(socket, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(block, static_cast<std::size_t>(count));
  }
}

// The memory that /proc/PID/environ shows holds the variables that the process was started with. A variable whose new
// value is no longer than the old one is written there, so that `ps e` tells which rank this is.
void show(char* old, const std::string& variable) {
  const std::size_t room = std::strlen(old);
  if (variable.size() > room) return;
  std::memset(old, 0, room);
  std::memcpy(old, variable.data(), variable.size());
}

}  // namespace

void wait_as_spare() {
  const char* const number = std::getenv("ESPALIER_SPARE");
  if (number == nullptr) return;
  int socket = std::atoi(number);
  if (std::getenv("ESPALIER_SPARE_FORKS") != nullptr) socket = serve_forks(socket);
  // Whoever needed this process before it was loaded has written already and closed its end: no reason to die of
  // SIGPIPE.
  [[maybe_unused]] const ssize_t told = ::send(socket, "r", 1, MSG_NOSIGNAL);
  const std::string text = read_all(socket);
  ::close(socket);
  if (text.empty()) ::_exit(0);
  static std::vector<std::string> variables;  // environ points into them
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find('\0', begin);
    if (end == std::string::npos) end = text.size();
    variables.push_back(text.substr(begin, end - begin));
  }
  for (char** old = environ; *old != nullptr; ++old) {
    const std::string_view name = std::string_view(*old).substr(0, std::string_view(*old).find('=') + 1);
    for (const std::string& variable : variables)
      if (variable.starts_with(name)) show(*old, variable);
  }
  static std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  environ = pointers.data();
}

}  // namespace espalier::torchrt
