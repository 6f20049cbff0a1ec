#include "planner/wire/packet_socket.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::wire {

namespace {

socklen_t make_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) throw Error("socket " + name + ": the name is too long");
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero byte makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

union ControlBuffer {
  cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

}  // namespace

Descriptor listen_packets(const std::string& name) {
  sockaddr_un address{};
  const socklen_t size = make_address(name, address);
  Descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), 128) != 0)
    throw Error("socket " + name + ": cannot listen: " + std::strerror(errno));
  return listener;
}

Descriptor connect_packets(const std::string& name, std::chrono::milliseconds limit) {
  sockaddr_un address{};
  const socklen_t size = make_address(name, address);
  Descriptor connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval wait{limit.count() / 1000, limit.count() % 1000 * 1000};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (!connection || ::connect(connection.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    throw Error("socket " + name + ": cannot be reached: " + std::strerror(errno));
  if (!same_user(connection.get())) throw Error("socket " + name + ": is served by another user");
  return connection;
}

bool same_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

bool send_packet(int connection, const void* packet, std::size_t bytes, int fd) {
  iovec part{const_cast<void*>(packet), bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  if (fd >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

std::ptrdiff_t receive_packet(int connection, void* packet, std::size_t most, Descriptor& fd) {
  iovec part{packet, most};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (size < 0) return -1;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header))
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
      // The buffer for one descriptor is rounded up and may hold two. The last is kept, the others
      // are closed.
      for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int received = -1;
        std::memcpy(&received, CMSG_DATA(header) + at, sizeof received);
        fd.reset(received);
      }
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    errno = EMSGSIZE;
    return -1;
  }
  return size;
}

}  // namespace espalier::wire
