// Streams on the event loop: listeners that hand over authenticated connections, and a dialler that keeps one open.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/wire/loop.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/service.hpp"

namespace espalier::wire {

// Who the kernel or MUNGE says the peer is.
struct Peer {
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  std::string address;  // "10.0.0.1:4711" or "local"
};

// Of a peer that has said who it is, but has not been admitted to anything: some 4,000 GPUs' worth of registration.
inline constexpr std::size_t kMaxNewcomer = 256u << 10;
// What a peer may take to send a frame that was begun. A stopped process is no reason to hold half a frame for ever.
inline constexpr Loop::Milliseconds kFrameTime{10000};

// An authenticated stream. Callbacks run on the loop; after on_closed nothing is called any more. A peer that breaks
// the protocol, or does not read 16 MiB of output, is closed. Frames that come all at once are handled a few at a time,
// so that other connections and timers have their turn in between; those before the stream's end all are.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  virtual const Peer& peer() const = 0;
  virtual void send(const Frame& frame) = 0;  // never blocks; nothing happens when already closed
  virtual void close() = 0;                   // after what is queued was written; no further callbacks
  // Of frames to come, once the handshake is over: at most `most` bytes, complete `within` so long of the first one.
  // A frame that is not closes the connection. Not called: kMaxFrame, and all the time there is.
  virtual void limit_frames(std::size_t most, Loop::Milliseconds within) = 0;
  template <class Message>
  void send(const Message& message) {
    send(to_frame(message));
  }
  std::function<void(const Frame&)> on_frame;
  std::function<void(const std::string& why)> on_closed;
  std::shared_ptr<void> seat;  // the owner's: let go with the connection, not when it is only being closed
};
using ConnectionPtr = std::shared_ptr<Connection>;

class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::uint16_t port() const = 0;  // TCP only
};

using OnConnection = std::function<void(ConnectionPtr)>;

// `port` 0: any free one. Peers must finish the MUNGE handshake within 5 s. Throws Error.
std::unique_ptr<Listener> listen_tcp(Loop& loop, Service service, const std::string& address, std::uint16_t port,
                                     OnConnection on_connection);
// Replaces a stale socket file; mode 0666 (the peer's identity decides, not the file's mode). Throws Error.
std::unique_ptr<Listener> listen_local(Loop& loop, const std::string& path, OnConnection on_connection);

// Connects in the background and again after every loss, with a growing delay of 0.2 s to 5 s.
class Dialler {
 public:
  virtual ~Dialler() = default;
  virtual ConnectionPtr connection() const = 0;  // null while there is none
};
// `on_connection` runs for each new connection; `on_unreachable` once per outage. `server_uids` as in Client::tcp.
std::unique_ptr<Dialler> dial_tcp(Loop& loop, Service service, const std::string& host, std::uint16_t port,
                                  std::vector<uid_t> server_uids, OnConnection on_connection,
                                  std::function<void(const std::string& why)> on_unreachable);

}  // namespace espalier::wire
