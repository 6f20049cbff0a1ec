#include "torchrt/handoff/state_socket.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

constexpr char kMagic[4] = {'E', 'S', 'P', 'S'};

// Both processes run on one node, from one build: host byte order and layout.
struct Request {
  char magic[4];
  std::int32_t unit, guest;
};
struct Reply {
  char magic[4];
  std::int32_t found;
  std::int64_t step;
  std::uint64_t bytes;
};

socklen_t make_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) throw Error("state socket " + name + ": the name is too long");
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero byte makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool same_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

void limit_waits(int connection, int seconds) {
  const timeval limit{seconds, 0};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

union ControlBuffer {
  cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

bool send_reply(int connection, Reply& reply, int fd) {
  iovec part{&reply, sizeof reply};
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
  return ::sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof reply);
}

bool receive_reply(int connection, Reply& reply, UniqueFd& fd) {
  iovec part{&reply, sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header), sizeof received);
      fd.reset(received);
    }
  return size == static_cast<ssize_t>(sizeof reply) && std::memcmp(reply.magic, kMagic, sizeof kMagic) == 0;
}

}  // namespace

std::string state_address(const std::string& token, int generation, int rank) {
  return "espalier-" + token.substr(0, 8) + "-g" + std::to_string(generation) + "-r" + std::to_string(rank);
}

StateServer::StateServer(const std::string& address)
    : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_un name{};
  const socklen_t size = make_address(address, name);
  if (!listener_ || !stop_ || ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), size) != 0 ||
      ::listen(listener_.get(), 128) != 0)
    throw Error("state socket " + address + ": cannot listen: " + std::strerror(errno));
  thread_ = std::thread([this] { serve(); });
}

StateServer::~StateServer() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void StateServer::offer(const StateKey& key, int fd, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  offers_[key] = {fd, bytes};
}

void StateServer::withdraw(const StateKey& key) {
  const std::lock_guard lock(mutex_);
  offers_.erase(key);
}

void StateServer::mark(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

void StateServer::serve() {
  for (;;) {
    pollfd waits[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    const UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) answer(connection.get());
  }
}

void StateServer::answer(int connection) {
  if (!same_user(connection)) return;
  limit_waits(connection, 1);  // one client at a time: a silent one must not keep the others waiting
  Request request{};
  if (::recv(connection, &request, sizeof request, MSG_WAITALL) != static_cast<ssize_t>(sizeof request) ||
      std::memcmp(request.magic, kMagic, sizeof kMagic) != 0)
    return;
  const std::lock_guard lock(mutex_);
  const auto found = offers_.find({request.unit, request.guest});
  Reply reply{};
  std::memcpy(reply.magic, kMagic, sizeof kMagic);
  reply.found = found != offers_.end() ? 1 : 0;
  reply.step = step_;
  reply.bytes = reply.found ? found->second.bytes : 0;
  send_reply(connection, reply, reply.found ? found->second.fd : -1);
}

FetchedState fetch_state(const std::string& address, const StateKey& key) {
  const std::string who = "state socket " + address + ": ";
  sockaddr_un name{};
  const socklen_t size = make_address(address, name);
  const UniqueFd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  limit_waits(connection.get(), 5);
  if (!connection || ::connect(connection.get(), reinterpret_cast<sockaddr*>(&name), size) != 0)
    throw Error(who + "cannot be reached: " + std::strerror(errno));
  if (!same_user(connection.get())) throw Error(who + "is served by another user");
  Request request{};
  std::memcpy(request.magic, kMagic, sizeof kMagic);
  request.unit = key.unit;
  request.guest = key.guest;
  Reply reply{};
  FetchedState fetched;
  if (::send(connection.get(), &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request) ||
      !receive_reply(connection.get(), reply, fetched.fd))
    throw Error(who + "did not answer properly within 5 s");
  if (!reply.found || !fetched.fd)
    throw Error(who + "does not hold unit " + std::to_string(key.unit) +
                (key.guest < 0 ? "" : " of new rank " + std::to_string(key.guest)));
  fetched.bytes = reply.bytes;
  fetched.step = reply.step;
  return fetched;
}

}  // namespace espalier::torchrt
