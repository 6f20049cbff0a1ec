#include "torchrt/toy/star_sum.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "planner/core/error.hpp"

namespace espalier::torchrt::toy {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{60}, kHello{2};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolved(const std::string& address, const std::string& port, bool own) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = own ? AI_PASSIVE : 0;
  if (const int status = ::getaddrinfo(address.c_str(), port.c_str(), &wanted, &found); status != 0)
    throw Error("toy: " + address + ": " + ::gai_strerror(status) + "; check the node's address");
  return {found, &::freeaddrinfo};
}

void limit_waits(int socket, std::chrono::seconds limit) {
  const timeval time{limit.count(), 0};
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool receive(int socket, void* data, std::size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = ::recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send(int socket, const void* data, std::size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

StarSum::StarSum(int rank, int size, const std::string& address, const std::string& port) : rank_(rank) {
  if (size <= 1) return;
  if (rank == 0) listen_for(size, address, port);
  else connect_to(rank, address, port);
}

void StarSum::listen_for(int size, const std::string& address, const std::string& port) {
  const Addresses own = resolved(address, port, true);
  const wire::Descriptor listener(::socket(own->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener.get(), own->ai_addr, own->ai_addrlen) != 0 || ::listen(listener.get(), size) != 0)
    throw Error("toy: " + address + ":" + port + ": " + std::strerror(errno));
  peers_.resize(static_cast<std::size_t>(size - 1));
  const auto until = Clock::now() + kLimit;
  for (int missing = size - 1; missing > 0;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waiting{listener.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0)
      throw Error("toy: " + std::to_string(missing) + " processes did not connect to " + address + ":" + port);
    wire::Descriptor peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::int32_t rank = 0;
    limit_waits(peer.get(), kHello);  // a stranger says nothing, or no rank that is awaited
    if (peer.get() < 0 || !receive(peer.get(), &rank, sizeof rank) || rank < 1 || rank >= size) continue;
    wire::Descriptor& place = peers_[static_cast<std::size_t>(rank - 1)];
    if (place.get() >= 0) continue;
    limit_waits(peer.get(), kLimit);
    place = std::move(peer);
    --missing;
  }
}

void StarSum::connect_to(int rank, const std::string& address, const std::string& port) {
  const Addresses first = resolved(address, port, false);
  for (const auto until = Clock::now() + kLimit;; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    wire::Descriptor peer(::socket(first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    limit_waits(peer.get(), kLimit);
    const std::int32_t own = rank;
    if (::connect(peer.get(), first->ai_addr, first->ai_addrlen) == 0 && send(peer.get(), &own, sizeof own)) {
      peers_.push_back(std::move(peer));
      return;
    }
    if (Clock::now() > until) throw Error("toy: " + address + ":" + port + ": " + std::strerror(errno));
  }
}

bool StarSum::operator()(double* values, int count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
  if (rank_ != 0) return send(peers_[0].get(), values, bytes) && receive(peers_[0].get(), values, bytes);
  std::vector<double> theirs(static_cast<std::size_t>(count));
  for (const wire::Descriptor& peer : peers_) {
    if (!receive(peer.get(), theirs.data(), bytes)) return false;
    for (int i = 0; i < count; ++i) values[i] += theirs[static_cast<std::size_t>(i)];
  }
  for (const wire::Descriptor& peer : peers_)
    if (!send(peer.get(), values, bytes)) return false;
  return true;
}

}  // namespace espalier::torchrt::toy
