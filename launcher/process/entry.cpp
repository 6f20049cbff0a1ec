#include "launcher/process/entry.hpp"

#include <sched.h>
#include <unistd.h>

namespace espalier::launcher {

// The user namespace comes first: there this process may do the rest.
bool enter(const Entry& entry) {
  if (entry.user >= 0 && ::setns(entry.user, CLONE_NEWUSER) != 0) return false;
  return ::setns(entry.mount, CLONE_NEWNS) == 0 && ::fchdir(entry.root) == 0 && ::chroot(".") == 0 &&
         ::fchdir(entry.folder) == 0;
}

}  // namespace espalier::launcher
