// Addresses and client sockets: name look-up and connecting with a timeout. All sockets are
// close-on-exec.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::wire {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;
};

// First address of `host`. Throws Error when the name is unknown.
Endpoint resolve(const std::string& host, std::uint16_t port);
bool is_address(const std::string& host);          // numeric: it needs no look-up
Endpoint local_endpoint(const std::string& path);  // throws Error when the path is too long
// "10.0.0.1:4711", or "local" for what is no internet address. Always numeric, and without an interface's name.
std::string to_string(const Endpoint& endpoint);
Endpoint own_endpoint(int socket);  // this end of a connection; empty: the kernel does not say

// The host has answered that nobody listens on the port.
class NobodyListens : public Error {
 public:
  using Error::Error;
};

// Throws NobodyListens when nobody listens, else Error. `what` names the peer in the message. The
// socket is left non-blocking.
Descriptor connect_to(const Endpoint& endpoint, const std::string& what, std::chrono::milliseconds timeout);
// Sets keep-alive and TCP_USER_TIMEOUT, so that a vanished peer is noticed within `seconds`.
// Switches Nagle's delay off.
void notice_loss(int socket, int seconds);

}  // namespace espalier::wire
