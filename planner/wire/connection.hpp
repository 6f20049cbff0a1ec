// The stream behind server.hpp: a libevent buffer, framing, and one side of the login.
#pragma once

#include <event2/bufferevent.h>

#include <optional>
#include <string>
#include <vector>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/framing.hpp"
#include "planner/wire/handshake.hpp"
#include "planner/wire/server.hpp"
#include "planner/wire/side_thread.hpp"

namespace espalier::wire {

class BufferedConnection final : public Connection {
 public:
  // Runs `login` on `socket`; null: the kernel has named the peer, and there is no login. `on_ready` gets
  // the connection after the login. `on_failed` gets the reason when the login fails. MUNGE is asked on
  // `munge`; null: on the loop's thread.
  static std::shared_ptr<BufferedConnection> start(Loop& loop, Descriptor socket, Side side,
                                                   std::unique_ptr<Login> login, Peer peer, OnConnection on_ready,
                                                   std::function<void(const std::string&)> on_failed,
                                                   std::shared_ptr<SideThread> munge = nullptr);
  ~BufferedConnection() override;
  BufferedConnection(const BufferedConnection&) = delete;
  BufferedConnection& operator=(const BufferedConnection&) = delete;

  const Peer& peer() const override { return peer_; }
  void send(const Frame& frame) override;
  void send_encoded(std::string bytes) override;
  void close() override;
  void limit_frames(std::size_t most, Loop::Milliseconds within) override;
  void resume() override;
  std::size_t unread() const override;
  // Whether the peer has not proved yet who it is.
  bool is_stranger() const { return state_ == State::greeting; }
  void drop() { lose("connection: too many peers that have not said who they are"); }

 private:
  enum class State { greeting, ready, closing, closed };
  explicit BufferedConnection(Loop& loop) : loop_(loop) {}
  static void on_read(bufferevent*, void* self);
  static void on_written(bufferevent*, void* self);
  static void on_event(bufferevent*, short what, void* self);
  bool open() const { return state_ != State::closing && state_ != State::closed; }
  std::size_t frame_limit() const;
  void take_frames();
  void rest();
  void count_input();
  bool frame_waits() const;
  bool next_frame(Frame& frame);
  void watch_unfinished();
  void handle(const Frame& frame);
  void greet(const Frame& frame);
  void answered(const Login::Answer& answer);
  void answered_late(const std::optional<Login::Answer>& answer, const std::string& why_not);
  void ready();
  void refuse(const std::string& why);  // the peer broke the protocol: tells it why, then closes
  void lose(const std::string& why);

  Loop& loop_;
  bufferevent* buffer_ = nullptr;
  Side side_ = Side::server;
  State state_ = State::greeting;
  Peer peer_;
  std::shared_ptr<Login> login_;  // null: a local peer
  Framing framing_;
  OnConnection on_ready_;
  std::function<void(const std::string&)> on_failed_;
  Watch deadline_;  // of the login or of closing
  std::size_t most_frame_ = kMaxFrame;
  Loop::Milliseconds frame_time_{0};  // 0: no limit
  Watch frame_deadline_;              // for the rest of a frame that has begun
  std::shared_ptr<SideThread> munge_;
  bool asking_ = false;                       // MUNGE is being asked; frames wait
  bool more_ = false;                         // frames wait for the loop's next turn
  bool resting_ = false;                      // the owner takes no frame now
  std::size_t counted_ = 0;                   // bytes of this connection in `pending`
  bool overflown_ = false;                    // the peer does not read and is about to be closed
  std::optional<std::string> ended_;          // why the stream ended behind those frames
  std::shared_ptr<BufferedConnection> self_;  // keeps the object alive until it is closed
};

}  // namespace espalier::wire
