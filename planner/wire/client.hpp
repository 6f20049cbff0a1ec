// A blocking stream client with a timeout on every call: for workers, keepers' children, tools and node reports.
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

// Movable; one thread at a time. Closes on destruction.
class Client {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // TCP with the mutual MUNGE handshake of handshake.hpp. The server must run as one of `server_uids`.
  // Throws Error when unreachable, unauthenticated or late.
  static Client tcp(Service service, const std::string& host, std::uint16_t port, const std::vector<uid_t>& server_uids,
                    Milliseconds timeout);
  // Unix stream socket; the kernel names both sides (SO_PEERCRED).
  static Client local(const std::string& path, const std::vector<uid_t>& server_uids, Milliseconds timeout);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Throws ConnectionLost. Blocks at most 5 s (a peer that does not read is lost).
  void send(const Frame& frame);
  template <class Message>
  void send(const Message& message) {
    send(to_frame(message));
  }
  // nullopt: nothing came within `timeout` (0: only what is there). Throws ConnectionLost on end of stream.
  std::optional<Frame> receive(Milliseconds timeout);
  int fd() const;  // for poll(2); stays owned here

 private:
  struct Stream;
  explicit Client(std::unique_ptr<Stream> stream);
  std::unique_ptr<Stream> stream_;
};

}  // namespace espalier::wire
