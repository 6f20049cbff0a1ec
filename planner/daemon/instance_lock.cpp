#include "planner/daemon/instance_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier {

InstanceLock::InstanceLock(const std::string& path) {
  file_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file_) throw Error(path + ": cannot be opened: " + std::strerror(errno) + "; check the owner of its directory");
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    char text[32] = "";
    const ssize_t size = ::pread(file_.get(), text, sizeof text - 1, 0);
    const std::string pid = size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "unknown\n";
    throw Error(path + ": another espalierd runs on this state directory, process " + pid.substr(0, pid.find('\n')) +
                "; stop it first");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file_.get(), 0) != 0 || ::pwrite(file_.get(), pid.data(), pid.size(), 0) < 0)
    throw Error(path + ": cannot be written: " + std::strerror(errno));
}

}  // namespace espalier
