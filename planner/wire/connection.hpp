// The stream behind server.hpp: a libevent buffer, framing, and the server's or client's half of the handshake.
#pragma once

#include <event2/bufferevent.h>

#include <optional>
#include <string>
#include <vector>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/server.hpp"

namespace espalier::wire {

class BufferedConnection final : public Connection {
 public:
  enum class Side { server, client };
  // Runs the handshake on `socket`. `on_ready` gets the connection after the handshake. `on_failed`
  // gets the reason when the handshake fails.
  static std::shared_ptr<BufferedConnection> start(Loop& loop, Service service, Descriptor socket, Side side,
                                                   bool local, Peer peer, std::vector<uid_t> server_uids,
                                                   OnConnection on_ready,
                                                   std::function<void(const std::string&)> on_failed);
  ~BufferedConnection() override;
  BufferedConnection(const BufferedConnection&) = delete;
  BufferedConnection& operator=(const BufferedConnection&) = delete;

  const Peer& peer() const override { return peer_; }
  void send(const Frame& frame) override;
  void close() override;
  void limit_frames(std::size_t most, Loop::Milliseconds within) override;

 private:
  enum class State { greeting, identifying, ready, closing, closed };
  explicit BufferedConnection(Loop& loop) : loop_(loop) {}
  static void on_read(bufferevent*, void* self);
  static void on_written(bufferevent*, void* self);
  static void on_event(bufferevent*, short what, void* self);
  bool open() const { return state_ != State::closing && state_ != State::closed; }
  std::size_t frame_limit() const;
  void take_frames();
  bool frame_waits() const;
  bool next_frame(Frame& frame);
  void watch_unfinished();
  void handle(const Frame& frame);
  void greet(const Frame& frame);
  void ready();
  void refuse(const std::string& why);  // the peer broke the protocol: tells it why, then closes
  void lose(const std::string& why);

  Loop& loop_;
  bufferevent* buffer_ = nullptr;
  Side side_ = Side::server;
  bool local_ = false;  // the kernel has named the peer; there is no handshake
  State state_ = State::greeting;
  Peer peer_;
  Service service_ = Service::planner;
  std::string nonce_, client_nonce_;
  std::vector<uid_t> server_uids_;
  OnConnection on_ready_;
  std::function<void(const std::string&)> on_failed_;
  Watch deadline_;  // of the handshake or of closing
  std::size_t most_frame_ = kMaxFrame;
  Loop::Milliseconds frame_time_{0};          // 0: no limit
  Watch frame_deadline_;                      // for the rest of a frame that has begun
  bool more_ = false;                         // frames wait for the loop's next turn
  bool overflown_ = false;                    // the peer does not read and is about to be closed
  std::optional<std::string> ended_;          // why the stream ended behind those frames
  std::shared_ptr<BufferedConnection> self_;  // keeps the object alive until it is closed
};

}  // namespace espalier::wire
