#include "launcher/world/server/fork_request.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace espalier::launcher {

bool ask_for_fork(int fork_server, int socket, int output, int errors) {
  char byte = 'f';
  iovec place{&byte, 1};
  const int numbers[3] = {socket, output, errors};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof numbers)] = {};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof numbers);
  std::memcpy(CMSG_DATA(header), numbers, sizeof numbers);
  ssize_t count = 0;
  do count = ::sendmsg(fork_server, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (count < 0 && errno == EINTR);
  return count == 1;
}

}  // namespace espalier::launcher
