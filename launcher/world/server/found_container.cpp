#include "launcher/world/server/found_container.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

wire::Descriptor opened(const std::string& path, int flags) {
  wire::Descriptor descriptor(::open(path.c_str(), flags | O_CLOEXEC));
  if (descriptor.get() < 0) throw Error(path + ": " + std::strerror(errno) + "; the container cannot be entered");
  return descriptor;
}

bool is_own(const wire::Descriptor& space, const char* name) {
  struct stat theirs = {};
  struct stat own = {};
  return ::fstat(space.get(), &theirs) == 0 && ::stat((std::string("/proc/self/ns/") + name).c_str(), &own) == 0 &&
         theirs.st_ino == own.st_ino && theirs.st_dev == own.st_dev;
}

// The number inside a user namespace of the user or group that has the number `outside` here. `map` is the namespace's
// uid_map or gid_map, whose lines are "inside outside length". A number that the map does not have stays as it is.
unsigned inside_id(const std::string& map, unsigned outside) {
  std::ifstream file(map);
  for (unsigned long inside = 0, first = 0, length = 0; file >> inside >> first >> length;)
    if (outside >= first && outside - first < length) return static_cast<unsigned>(inside + (outside - first));
  return outside;
}

std::vector<std::string> environment_of(const std::string& process) {
  std::ifstream file(process + "/environ", std::ios::binary);
  std::vector<std::string> list;
  for (std::string variable; std::getline(file, variable, '\0');) list.push_back(variable);
  return list;
}

}  // namespace

FoundContainer::FoundContainer(pid_t process) : process_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {
  if (process_.get() < 0)
    throw Error("process " + std::to_string(process) + " of the container: " + std::strerror(errno));
  ::fcntl(process_.get(), F_SETFD, FD_CLOEXEC);
  const std::string shown = "/proc/" + std::to_string(process);
  user_ = opened(shown + "/ns/user", O_RDONLY);
  mount_ = opened(shown + "/ns/mnt", O_RDONLY);
  root_ = opened(shown + "/root", O_PATH | O_DIRECTORY);
  folder_ = opened(shown + "/cwd", O_PATH | O_DIRECTORY);
  if (is_own(mount_, "mnt"))
    throw Error("the step of the container runs outside of any; is pyxis in plugstack.conf on this node?");
  environment_ = environment_of(shown);
  if (environment_.empty()) throw Error(shown + "/environ: the container's process has ended");
  uid_ = inside_id(shown + "/uid_map", ::getuid());
  gid_ = inside_id(shown + "/gid_map", ::getgid());
  entry_ = {is_own(user_, "user") ? -1 : user_.get(), mount_.get(), root_.get(), folder_.get()};
}

bool FoundContainer::kill() const { return ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0) == 0; }

}  // namespace espalier::launcher
