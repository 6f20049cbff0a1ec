#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "planner/wire/packet_socket.hpp"

namespace espalier::wire {
namespace {

constexpr int kListening = 10;  // TCP_LISTEN, also of Unix sockets

using Listeners = std::map<std::string, std::optional<uid_t>>;

bool ask(int kernel) {
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.request.sdiag_family = AF_UNIX;
  message.request.udiag_states = 1u << kListening;
  message.request.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  return ::send(kernel, &message, sizeof message, 0) == static_cast<ssize_t>(sizeof message);
}

void take(const char* message, std::size_t size, const std::string& prefix, Listeners& found) {
  std::string name;
  std::optional<uid_t> owner;
  std::size_t at = NLMSG_LENGTH(sizeof(unix_diag_msg));
  while (at + sizeof(nlattr) <= size) {
    nlattr attribute{};
    std::memcpy(&attribute, message + at, sizeof attribute);
    if (attribute.nla_len < sizeof attribute || at + attribute.nla_len > size) break;
    const char* value = message + at + NLA_HDRLEN;
    const std::size_t length = attribute.nla_len - static_cast<std::size_t>(NLA_HDRLEN);
    if (attribute.nla_type == UNIX_DIAG_NAME) name.assign(value, length);
    if (attribute.nla_type == UNIX_DIAG_UID && length >= sizeof(uid_t)) {
      uid_t uid = 0;
      std::memcpy(&uid, value, sizeof uid);
      owner = uid;
    }
    at += NLA_ALIGN(attribute.nla_len);
  }
  if (name.size() > 1 && name[0] == 0 && name.compare(1, prefix.size(), prefix) == 0) found[name.substr(1)] = owner;
}

// False: the kernel does not answer such questions.
bool from_kernel(const std::string& prefix, Listeners& found) {
  const Descriptor kernel(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const timeval wait{1, 0};
  if (!kernel || ::setsockopt(kernel.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) != 0 || !ask(kernel.get()))
    return false;
  std::vector<char> answer(64u << 10);
  for (;;) {
    const ssize_t size = ::recv(kernel.get(), answer.data(), answer.size(), 0);
    if (size <= 0) return false;
    for (std::size_t at = 0; at + sizeof(nlmsghdr) <= static_cast<std::size_t>(size);) {
      nlmsghdr header{};
      std::memcpy(&header, answer.data() + at, sizeof header);
      if (header.nlmsg_type == NLMSG_DONE) return true;
      if (header.nlmsg_type == NLMSG_ERROR || header.nlmsg_len < sizeof header ||
          at + header.nlmsg_len > static_cast<std::size_t>(size))
        return false;
      take(answer.data() + at, header.nlmsg_len, prefix, found);
      at += NLMSG_ALIGN(header.nlmsg_len);
    }
  }
}

}  // namespace

Listeners packet_listeners(const std::string& prefix) {
  Listeners found;
  if (from_kernel(prefix, found)) return found;
  std::ifstream sockets("/proc/net/unix");
  const std::string wanted = " @" + prefix;
  for (std::string line; std::getline(sockets, line);)
    if (const std::size_t at = line.find(wanted); at != std::string::npos)
      found.try_emplace(line.substr(at + 2), std::nullopt);
  return found;
}

}  // namespace espalier::wire
