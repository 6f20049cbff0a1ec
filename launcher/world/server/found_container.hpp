// A container as a process that waits in it shows it: its namespaces, its environment, and who this user is inside.
// What is opened here stays there when the process ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/process/entry.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

class FoundContainer {
 public:
  // Throws Error when the process is not there, shows no environment, or is in no container.
  explicit FoundContainer(pid_t process);

  const Entry& entry() const { return entry_; }
  // Of the process.
  const std::vector<std::string>& environment() const { return environment_; }
  // The numbers that this process's user and group have inside the container.
  uid_t uid() const { return uid_; }
  gid_t gid() const { return gid_; }
  // SIGKILL to the process. False: it got none, since it has ended and its parent has waited for it, or since the
  // kernel lets this process send it no signal.
  bool kill() const;

 private:
  wire::Descriptor process_, user_, mount_, root_, folder_;
  std::vector<std::string> environment_;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  Entry entry_;
};

}  // namespace espalier::launcher
