#include "torchrt/handoff/state_socket.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/wire/packet_socket.hpp"

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

constexpr std::chrono::milliseconds kAsk{5000};  // for an answer

}  // namespace

StateServer::StateServer(const std::string& address)
    : listener_(wire::listen_packets(address).release()), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw Error("state socket " + address + ": eventfd failed: " + std::strerror(errno));
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
  if (!wire::same_user(connection)) return;
  const timeval second{1, 0};  // one client at a time: a silent one must not keep the others waiting
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  Request request{};
  wire::Descriptor none;
  if (wire::receive_packet(connection, &request, sizeof request, none) != sizeof request ||
      std::memcmp(request.magic, kMagic, sizeof kMagic) != 0)
    return;
  const std::lock_guard lock(mutex_);
  const auto found = offers_.find({request.unit, request.guest});
  Reply reply{};
  std::memcpy(reply.magic, kMagic, sizeof kMagic);
  reply.found = found != offers_.end() ? 1 : 0;
  reply.step = step_;
  reply.bytes = reply.found ? found->second.bytes : 0;
  wire::send_packet(connection, &reply, sizeof reply, reply.found ? found->second.fd : -1);
}

FetchedState fetch_state(const std::string& address, const StateKey& key) {
  const std::string who = "state socket " + address + ": ";
  const wire::Descriptor connection = wire::connect_packets(address, kAsk);
  Request request{};
  std::memcpy(request.magic, kMagic, sizeof kMagic);
  request.unit = key.unit;
  request.guest = key.guest;
  Reply reply{};
  FetchedState fetched;
  wire::Descriptor fd;
  if (!wire::send_packet(connection.get(), &request, sizeof request) ||
      wire::receive_packet(connection.get(), &reply, sizeof reply, fd) != sizeof reply ||
      std::memcmp(reply.magic, kMagic, sizeof kMagic) != 0)
    throw Error(who + "did not answer properly within 5 s");
  if (!reply.found || !fd)
    throw Error(who + "does not hold unit " + std::to_string(key.unit) +
                (key.guest < 0 ? "" : " of new rank " + std::to_string(key.guest)));
  fetched.fd = UniqueFd(fd.release());
  fetched.bytes = reply.bytes;
  fetched.step = reply.step;
  return fetched;
}

}  // namespace espalier::torchrt
