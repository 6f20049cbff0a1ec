#include "launcher/world/server/spare_origin.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace espalier::launcher {
namespace {
// "#!/usr/bin/python3 -u": the interpreter, and what stands behind it as one word.
constexpr std::size_t kInterpreterWords = 2;
}  // namespace

FirstWord first_word(int socket) {
  char byte = 0;
  iovec place{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count = 0;
  do count = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (count < 0 && errno == EINTR);
  if (count != 1) return {};
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) return {};
  ucred writer{};
  std::memcpy(&writer, CMSG_DATA(header), sizeof writer);
  return {writer.pid, byte};
}

bool is_command_of(pid_t pid, const std::vector<std::string>& program) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  std::string wanted;
  for (const std::string& word : program) wanted.append(word.c_str(), word.size() + 1);
  if (wanted.empty() || !line.ends_with(wanted)) return false;
  std::size_t words = 0;  // before the program
  for (std::size_t at = 0; at < line.size() - wanted.size(); ++at) words += line[at] == '\0' ? 1 : 0;
  const bool at_a_word = line.size() == wanted.size() || line[line.size() - wanted.size() - 1] == '\0';
  return at_a_word && words <= kInterpreterWords;
}

}  // namespace espalier::launcher
