#include "planner/wire/endpoint.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::wire {

Endpoint resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  // The listeners listen on IPv4. Another family is tried only when the host has no IPv4 address.
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    hints.ai_family = AF_UNSPEC;
    error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  }
  if (error != 0 || list == nullptr)
    throw Error("host \"" + host + "\": " + gai_strerror(error) + "; check the name in the configuration");
  Endpoint endpoint;
  std::memcpy(&endpoint.address, list->ai_addr, list->ai_addrlen);
  endpoint.size = list->ai_addrlen;
  freeaddrinfo(list);
  return endpoint;
}

bool is_address(const std::string& host) {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 || ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

Endpoint local_endpoint(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error("socket " + path + ": the path is too long; choose a shorter run_dir");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Endpoint endpoint;
  std::memcpy(&endpoint.address, &address, sizeof address);
  endpoint.size = sizeof address;
  return endpoint;
}

std::string to_string(const Endpoint& endpoint) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (endpoint.address.ss_family == AF_UNIX ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size, host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "local";
  host[std::strcspn(host, "%")] = '\0';
  return std::string(host) + ":" + port;
}

Endpoint own_endpoint(int socket) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.size) != 0) return {};
  return endpoint;
}

Descriptor connect_to(const Endpoint& endpoint, const std::string& what, std::chrono::milliseconds timeout) {
  Descriptor fd(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw Error(what + ": no socket: " + std::strerror(errno));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) != 0) {
    if (errno == ECONNREFUSED) throw NobodyListens(what + ": nobody listens");
    if (errno != EINPROGRESS) throw Error(what + ": cannot connect: " + std::strerror(errno));
    pollfd wait{fd.get(), POLLOUT, 0};
    if (::poll(&wait, 1, static_cast<int>(timeout.count())) != 1) throw Error(what + ": no answer in time");
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == ECONNREFUSED) throw NobodyListens(what + ": nobody listens");
    if (error != 0) throw Error(what + ": cannot connect: " + std::strerror(error));
  }
  return fd;
}

void notice_loss(int socket, int seconds) {
  const int on = 1, idle = 1, interval = 1, probes = seconds;
  const unsigned user_timeout = static_cast<unsigned>(seconds) * 1000u;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
}

}  // namespace espalier::wire
