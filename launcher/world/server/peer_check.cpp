// The PMIx library listens on the loopback interface of the node, where every user of the node can connect, and a
// connection that says nothing stalls it for as long as it lasts. So this program has an accept() of its own, which the
// library calls in the place of libc's: it closes connections of other users before the library sees them.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/peer_owner.hpp"

namespace {

// What a stranger's connection becomes. It is no error, because no error suits every release of the library: some stop
// listening after EAGAIN, others after ECONNABORTED. All of them drop a connection whose other end has closed it.
int ended_connection() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  ::close(ends[1]);
  return ends[0];
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int accept(int listener, sockaddr* address, socklen_t* size) {
  using namespace espalier::wire;
  Descriptor connection(static_cast<int>(::syscall(SYS_accept4, listener, address, size, SOCK_CLOEXEC)));
  if (!connection) return -1;
  if (!is_internet(connection.get()) || peer_owner(connection.get()) == ::getuid()) return connection.release();
  connection.reset();
  return ended_connection();
}
