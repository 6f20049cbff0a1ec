// The PMIx library listens on the loopback interface of the node, where every user of the node can connect, and a
// connection that says nothing stalls it for as long as it lasts. So this program has an accept() of its own, which the
// library calls in the place of libc's: it closes connections of other users before the library sees them.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/peer_owner.hpp"

// ECONNABORTED tells the caller that this connection has gone and that it may go on listening.
extern "C" __attribute__((visibility("default"))) int accept(int listener, sockaddr* address, socklen_t* size) {
  using namespace espalier::wire;
  Descriptor connection(static_cast<int>(::syscall(SYS_accept4, listener, address, size, SOCK_CLOEXEC)));
  if (!connection) return -1;
  if (!is_internet(connection.get()) || peer_owner(connection.get()) == ::getuid()) return connection.release();
  connection.reset();
  errno = ECONNABORTED;
  return -1;
}
