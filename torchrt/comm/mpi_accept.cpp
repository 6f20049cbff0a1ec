// Open MPI's TCP transport listens on all interfaces. It reads the first bytes of each connection with a blocking call
// that waits up to two seconds, so that a stranger who sends nothing, or too little, stops the training for as long.
// The listen() and accept() below stand in the place of libc's for that transport only. The kernel holds connections
// back until they have sent something, and a connection is closed that does not begin with the transport's whole
// greeting, or that comes from another user of this node.
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/peer_owner.hpp"

namespace {

constexpr int kFirstBytes = 10;  // seconds for which the kernel holds a silent connection
// The greeting (mca_btl_tcp_endpoint_hs_msg_t of Open MPI 4 to 6): the name of a process, and a word.
constexpr std::size_t kName = 8, kGreeting = 24;
constexpr char kWord[] = "OPAL-TCP-BTL";

// In Open MPI 4 the transport is a plugin, later a part of libopen-pal.
bool is_transport(const void* caller) {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view file(info.dli_fname);
  return file.find("mca_btl_tcp") != std::string_view::npos || file.find("libopen-pal") != std::string_view::npos;
}

bool may_enter(int connection) {
  using namespace espalier::wire;
  if (!is_internet(connection)) return true;
  const auto owner = peer_owner(connection);
  if (owner && *owner != ::getuid()) return false;
  char greeting[kGreeting];
  const ssize_t size = ::recv(connection, greeting, sizeof greeting, MSG_PEEK | MSG_DONTWAIT);
  return size == sizeof greeting && std::memcmp(greeting + kName, kWord, sizeof kWord - 1) == 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int listen(int socket, int backlog) {
  if (is_transport(__builtin_return_address(0)))
    ::setsockopt(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, &kFirstBytes,
                 sizeof kFirstBytes);  // no matter on other sockets
  return static_cast<int>(::syscall(SYS_listen, socket, backlog));
}

// EAGAIN: nobody is there who may enter. The caller looks again when the kernel says so.
extern "C" __attribute__((visibility("default"))) int accept(int listener, sockaddr* address, socklen_t* size) {
  const bool checks = is_transport(__builtin_return_address(0));
  espalier::wire::Descriptor connection(static_cast<int>(::syscall(SYS_accept4, listener, address, size, 0)));
  if (!connection) return -1;
  if (!checks || may_enter(connection.get())) return connection.release();
  connection.reset();
  errno = EAGAIN;
  return -1;
}
