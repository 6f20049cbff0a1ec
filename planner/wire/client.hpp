// A blocking stream client. Every call has a timeout. Workers, keepers' children, tools and node
// reports use it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/service.hpp"

namespace espalier::wire {

// The peer is gone, or broke the protocol.
class ConnectionLost : public Error {
 public:
  using Error::Error;
};

// Movable. One thread at a time may use it. Closes on destruction.
class Client {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // TCP with the login of handshake.hpp. Throws Error when the server cannot be reached, fails the login
  // or is late.
  static Client tcp(Caller caller, const std::string& host, std::uint16_t port, Milliseconds timeout);
  // A Unix stream socket. The kernel names the server's user (SO_PEERCRED), which must be one of
  // `server_uids`. Throws Error.
  static Client local(const std::string& path, const std::vector<uid_t>& server_uids, Milliseconds timeout);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Throws ConnectionLost. Blocks at most 5 s: a peer that does not read by then counts as lost.
  void send(const Frame& frame);
  template <class Message>
  void send(const Message& message) {
    send(to_frame(message));
  }
  // nullopt: no frame came within `timeout`. 0: takes only a frame that has already arrived. Throws
  // ConnectionLost at the end of the stream.
  std::optional<Frame> receive(Milliseconds timeout);
  int fd() const;  // for poll(2); the client keeps owning it

 private:
  struct Stream;
  explicit Client(std::unique_ptr<Stream> stream);
  std::unique_ptr<Stream> stream_;
};

}  // namespace espalier::wire
