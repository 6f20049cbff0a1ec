// Streams on the event loop. Listeners hand over authenticated connections. A dialler keeps one
// connection open.
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

// The peer's identity, from the kernel or MUNGE.
struct Peer {
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  std::string address;                 // "10.0.0.1:4711" or "local"
  Service service = Service::planner;  // what the peer has logged in for
};

// Largest frame of an authenticated peer that has not been admitted yet. A registration of some
// 4,000 GPUs fits.
inline constexpr std::size_t kMaxNewcomer = 256u << 10;
// Longest time for the rest of a frame that has begun. Without it a stopped process would hold half
// a frame for ever.
inline constexpr Loop::Milliseconds kFrameTime{10000};

// An authenticated stream. Over TCP each frame proves that it comes from the peer, in its place
// (frame_tags.hpp). Callbacks run on the loop; none follows on_closed. A peer is closed when
// it breaks the protocol or leaves 16 MiB of output unread. Frames that arrive together are handled
// a few at a time, so that other connections and timers get their turn. All frames before the end
// of the stream are handled.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  virtual const Peer& peer() const = 0;
  virtual void send(const Frame& frame) = 0;  // never blocks; ignored after closing
  // The same, of a frame that wire::encode() has made already, perhaps on another thread.
  virtual void send_encoded(std::string bytes) {
    Frame frame;
    if (decode(bytes, frame)) send(frame);
  }
  virtual void close() = 0;  // writes queued output first; no further callbacks
  // Limits frames after the handshake: at most `most` bytes, complete `within` this time of their
  // first byte. A frame beyond a limit closes the connection. Without this call: kMaxFrame bytes
  // and no time limit.
  virtual void limit_frames(std::size_t most, Loop::Milliseconds within) = 0;
  // Bytes of output that the peer has not taken yet.
  virtual std::size_t unread() const { return 0; }
  // Goes on after may_take() was false.
  virtual void resume() {}
  template <class Message>
  void send(const Message& message) {
    send(to_frame(message));
  }
  std::function<void(const Frame&)> on_frame;
  std::function<void(const std::string& why)> on_closed;
  // An object of the owner's. It is destroyed with the connection, not already on close().
  std::shared_ptr<void> seat;
  // Asked before a frame of the peer is decoded; empty: every frame is. False: nothing is read from the peer until the
  // owner calls resume(), and a frame that has begun has no time limit meanwhile.
  std::function<bool()> may_take;
  // Gets the thread's seconds that a frame has taken, to decode and to handle it, also of a frame that was refused.
  std::function<void(double seconds)> on_taken;
  // What of the peer's input waits for its rest or its turn, counted over all connections that share the object. A
  // frame of which not all has come is refused where that is more than `most`. null: it is not counted.
  struct Input {
    std::size_t bytes = 0, most = 0;
  };
  std::shared_ptr<Input> pending;
};
using ConnectionPtr = std::shared_ptr<Connection>;

class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::uint16_t port() const = 0;  // TCP only
};

using OnConnection = std::function<void(ConnectionPtr)>;

// `port` 0: any free port. A peer must finish the login of handshake.hpp within 5 s. MUNGE is asked on a
// thread of the listener's. The connections of peers that have not finished it are bounded in number
// (strangers.hpp). Throws Error.
std::unique_ptr<Listener> listen_tcp(Loop& loop, Door door, const std::string& address, std::uint16_t port,
                                     OnConnection on_connection);
// Replaces a stale socket file. The file's mode is 0666, because the peer's identity decides.
// Throws Error.
std::unique_ptr<Listener> listen_local(Loop& loop, const std::string& path, OnConnection on_connection);

// Connects in the background, and again after every loss. The delay grows from 0.2 s to 5 s; each is shortened by
// chance, to at least its half.
class Dialler {
 public:
  virtual ~Dialler() = default;
  virtual ConnectionPtr connection() const = 0;  // null while there is none
};
// `on_connection` runs for each new connection. `on_unreachable` runs once per outage.
// MUNGE is asked on a thread of the dialler's.
std::unique_ptr<Dialler> dial_tcp(Loop& loop, Caller caller, const std::string& host, std::uint16_t port,
                                  OnConnection on_connection,
                                  std::function<void(const std::string& why)> on_unreachable);

}  // namespace espalier::wire
