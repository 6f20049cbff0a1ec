#include "launcher/world/write_all.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace espalier::launcher {
namespace {

// A reader that goes away ends the wait at once. Somebody may make the descriptor blocking meanwhile.
constexpr int kLook = 1000;  // ms

bool stands_still(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

void write_all(int descriptor, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (count < 0 && stands_still(errno)) {
      pollfd room{descriptor, POLLOUT, 0};
      if (::poll(&room, 1, kLook) < 0 && errno != EINTR) return;
    } else if (count == 0 || errno != EINTR) {
      return;  // nobody reads: srun is gone
    }
  }
}

}  // namespace espalier::launcher
