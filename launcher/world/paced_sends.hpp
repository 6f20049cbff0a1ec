// What the rank servers of one generation are sent: so many bytes at each turn of the loop. A message that names every
// rank takes seconds to copy and to sign for thousands of servers. Heartbeats, and all else that the launcher does, go
// on meanwhile. A server that has not read what it was sent gets no more before it has: its connection would be closed
// for what waits there. What one server is sent keeps its order. Runs on the loop.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "launcher/world/placement.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class PacedSends {
 public:
  static constexpr std::size_t kAtOnce = 8u << 20;  // bytes; one message more may begin below it
  // So many unread bytes, and one message more, are less than a connection holds.
  static constexpr std::size_t kUnread = 4u << 20;
  using Send = std::function<void(const ServerId&, std::string frame)>;
  using Unread = std::function<std::size_t(const ServerId&)>;  // bytes
  using Frame = std::function<std::string()>;                  // an encoded frame

  // `loop` outlives this object. `send` must not call it. `unread` may be empty: then servers read at once.
  PacedSends(wire::Loop& loop, Send send, Unread unread = {})
      : loop_(loop), send_(std::move(send)), unread_(std::move(unread)) {}

  // `frame` is called when its turn comes, and must not throw.
  void send(const ServerId& id, Frame frame);
  void drop(const ServerId& id);  // what still waits for this server: it is gone

 private:
  struct Waiting {
    ServerId id;
    Frame frame;
  };
  bool full(const ServerId& id) const { return unread_ && unread_(id) > kUnread; }
  void pass(const Waiting& one);
  void next_turn();
  void look_again(wire::Loop::Milliseconds wait);

  wire::Loop& loop_;
  const Send send_;
  const Unread unread_;
  std::deque<Waiting> waiting_;
  std::size_t sent_ = 0;  // bytes, in this turn of the loop
  wire::Watch turn_;      // set where something was sent in this turn, or waits
};

}  // namespace espalier::launcher
