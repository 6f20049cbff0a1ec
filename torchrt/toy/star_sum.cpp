#include "torchrt/toy/star_sum.hpp"

#include <netdb.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/wire/frame_tags.hpp"

namespace espalier::torchrt::toy {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr milliseconds kHello{2000};  // a stranger may say nothing
constexpr milliseconds kLook{20};     // between two looks at those that have connected
constexpr std::size_t kMostCallers = 512;
constexpr milliseconds kBetween{50};     // two tries to connect
constexpr milliseconds kConnects{5000};  // one of them

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolved(const std::string& address, const std::string& port, bool own) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = own ? AI_PASSIVE : 0;
  if (const int status = ::getaddrinfo(address.c_str(), port.c_str(), &wanted, &found); status != 0)
    throw Error("toy: " + address + ": " + ::gai_strerror(status) + "; check the node's address");
  return {found, &::freeaddrinfo};
}

// What process `rank` sends to prove that it is one, and what process 0 answers.
struct Hello {
  std::int32_t rank = 0;
  wire::Key proof{};
};
wire::Key proof(const std::string& secret, const char* who, std::int32_t rank) {
  return wire::hmac(secret, std::string("espalier-toy ") + who + " " + std::to_string(rank));
}
bool same(const wire::Key& a, const wire::Key& b) { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

// Who has connected and not proved anything yet.
struct Caller {
  wire::Descriptor socket;
  Clock::time_point until;
};

// Waits until `events` hold, at most until then.
bool ready(int socket, short events, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
    pollfd waiting{socket, events, 0};
    const int found = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left));
    if (found > 0) return true;
    if (found == 0 || errno != EINTR) return false;
  }
}

bool receive(int socket, void* data, std::size_t bytes, Clock::time_point until) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    if (!ready(socket, POLLIN, until)) return false;
    const ssize_t got = ::recv(socket, at, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send(int socket, const void* data, std::size_t bytes, Clock::time_point until) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    if (!ready(socket, POLLOUT, until)) return false;
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

StarSum::StarSum(int rank, int size, const std::string& address, const std::string& port, std::string secret,
                 milliseconds limit)
    : rank_(rank), secret_(std::move(secret)), limit_(limit) {
  if (size <= 1) return;
  if (rank == 0) listen_for(size, address, port);
  else connect_to(address, port);
}

void StarSum::listen_for(int size, const std::string& address, const std::string& port) {
  const Addresses own = resolved(address, port, true);
  const wire::Descriptor listener(::socket(own->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener.get(), own->ai_addr, own->ai_addrlen) != 0 || ::listen(listener.get(), SOMAXCONN) != 0)
    throw Error("toy: " + address + ":" + port + ": " + std::strerror(errno) +
                "; launch.network in espalier.toml must be a network of this node");
  peers_.resize(static_cast<std::size_t>(size - 1));
  const Time until = Clock::now() + limit_;
  std::vector<Caller> callers;  // all at once: one that says nothing keeps nobody waiting
  for (int missing = size - 1; missing > 0;) {
    if (Clock::now() > until)
      throw Error("toy: " + std::to_string(missing) + " processes did not connect to " + address + ":" + port +
                  "; check that the nodes reach each other there");
    if (ready(listener.get(), POLLIN, Clock::now() + kLook))
      callers.push_back(
          {wire::Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)), Clock::now() + kHello});
    std::erase_if(callers, [&](Caller& one) {
      Hello hello;
      const ssize_t there = ::recv(one.socket.get(), &hello, sizeof hello, MSG_PEEK | MSG_DONTWAIT);
      if (there == static_cast<ssize_t>(sizeof hello)) {
        if (admit(std::move(one.socket))) --missing;
        return true;
      }
      const bool waits = there > 0 || (there < 0 && (errno == EAGAIN || errno == EINTR));
      return !waits || Clock::now() > one.until || callers.size() > kMostCallers;
    });
  }
}

bool StarSum::admit(wire::Descriptor peer) {
  Hello hello;
  const Time until = Clock::now() + kHello;
  if (peer.get() < 0 || !receive(peer.get(), &hello, sizeof hello, until) || hello.rank < 1 ||
      hello.rank > static_cast<std::int32_t>(peers_.size()) || !same(hello.proof, proof(secret_, "rank", hello.rank)))
    return false;
  wire::Descriptor& place = peers_[static_cast<std::size_t>(hello.rank - 1)];
  const wire::Key answer = proof(secret_, "root for", hello.rank);
  if (place.get() >= 0 || !send(peer.get(), answer.data(), answer.size(), until)) return false;
  place = std::move(peer);
  return true;
}

void StarSum::connect_to(const std::string& address, const std::string& port) {
  const Addresses first = resolved(address, port, false);
  for (const Time until = Clock::now() + limit_;; std::this_thread::sleep_for(kBetween)) {
    wire::Descriptor peer(::socket(first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval most{kConnects.count() / 1000, 0};
    ::setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (::connect(peer.get(), first->ai_addr, first->ai_addrlen) == 0 && enter(peer, until))
      return peers_.push_back(std::move(peer));
    if (Clock::now() > until)
      throw Error("toy: process 0 is not at " + address + ":" + port + "; check that the nodes reach each other there");
  }
}

// Whoever listens there must know the secret as well.
bool StarSum::enter(const wire::Descriptor& first, Time until) {
  const Hello hello{rank_, proof(secret_, "rank", rank_)};
  wire::Key answer{};
  return send(first.get(), &hello, sizeof hello, until) && receive(first.get(), answer.data(), answer.size(), until) &&
         same(answer, proof(secret_, "root for", rank_));
}

bool StarSum::operator()(double* values, int count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
  const Time until = Clock::now() + limit_;
  if (peers_.empty()) return true;
  if (rank_ != 0) return send(peers_[0].get(), values, bytes, until) && receive(peers_[0].get(), values, bytes, until);
  std::vector<double> theirs(static_cast<std::size_t>(count));
  for (const wire::Descriptor& peer : peers_) {
    if (!receive(peer.get(), theirs.data(), bytes, until)) return false;
    for (int i = 0; i < count; ++i) values[i] += theirs[static_cast<std::size_t>(i)];
  }
  for (const wire::Descriptor& peer : peers_)
    if (!send(peer.get(), values, bytes, until)) return false;
  return true;
}

}  // namespace espalier::torchrt::toy
