#include "planner/wire/peer_owner.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "planner/wire/descriptor.hpp"

namespace espalier::wire {
namespace {

struct Ends {  // of one TCP connection
  sockaddr_storage own{}, peer{};
};

std::optional<Ends> ends_of(int connection) {
  Ends ends;
  socklen_t own = sizeof ends.own, peer = sizeof ends.peer;
  if (::getsockname(connection, reinterpret_cast<sockaddr*>(&ends.own), &own) != 0 ||
      ::getpeername(connection, reinterpret_cast<sockaddr*>(&ends.peer), &peer) != 0)
    return std::nullopt;
  return ends;
}

// Fills in one end of an inet_diag request. False: no internet address.
bool put(const sockaddr_storage& address, __be16& port, __be32 (&bytes)[4]) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    port = v4.sin_port;
    std::memcpy(bytes, &v4.sin_addr, sizeof v4.sin_addr);
    return true;
  }
  if (address.ss_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  port = v6.sin6_port;
  std::memcpy(bytes, &v6.sin6_addr, sizeof v6.sin6_addr);
  return true;
}

// The owner of the socket at the other end, which is on this node. nullopt: there is none (any more), or the kernel
// does not say.
std::optional<uid_t> owner_of_peer(const Ends& ends) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.request.sdiag_family = static_cast<__u8>(ends.peer.ss_family);
  message.request.sdiag_protocol = IPPROTO_TCP;
  message.request.idiag_states = ~0U;
  // Seen from the other end, its own address is the source.
  if (!put(ends.peer, message.request.id.idiag_sport, message.request.id.idiag_src) ||
      !put(ends.own, message.request.id.idiag_dport, message.request.id.idiag_dst))
    return std::nullopt;
  message.request.id.idiag_cookie[0] = message.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const Descriptor kernel(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!kernel || ::send(kernel.get(), &message, sizeof message, 0) != sizeof message) return std::nullopt;
  alignas(nlmsghdr) char answer[4096];
  const ssize_t size = ::recv(kernel.get(), answer, sizeof answer, 0);
  nlmsghdr header{};
  if (size < static_cast<ssize_t>(sizeof header + sizeof(inet_diag_msg))) return std::nullopt;
  std::memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg found{};
  std::memcpy(&found, answer + NLMSG_HDRLEN, sizeof found);
  return found.idiag_uid;
}

}  // namespace

std::optional<uid_t> peer_owner(int connection) {
  const auto ends = ends_of(connection);
  return ends ? owner_of_peer(*ends) : std::nullopt;
}

bool is_internet(int connection) {
  const auto ends = ends_of(connection);
  return ends && (ends->peer.ss_family == AF_INET || ends->peer.ss_family == AF_INET6);
}

}  // namespace espalier::wire
