// What the rank servers of one generation are sent: so many bytes at each turn of the loop. A message that names every
// rank takes seconds to copy and to sign for thousands of servers. Heartbeats, and all else that the launcher does, go
// on meanwhile. What one server is sent keeps its order. Runs on the loop.
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
  using Send = std::function<void(const ServerId&, std::string frame)>;
  using Frame = std::function<std::string()>;  // an encoded frame

  // `loop` outlives this object. `send` must not call it.
  PacedSends(wire::Loop& loop, Send send) : loop_(loop), send_(std::move(send)) {}

  // `frame` is called when its turn comes, and must not throw.
  void send(const ServerId& id, Frame frame);
  void drop(const ServerId& id);  // what still waits for this server: it is gone

 private:
  struct Waiting {
    ServerId id;
    Frame frame;
  };
  void pass(const Waiting& one);
  void next_turn();

  wire::Loop& loop_;
  const Send send_;
  std::deque<Waiting> waiting_;
  std::size_t sent_ = 0;  // bytes, in this turn of the loop
  wire::Watch turn_;      // set where something was sent in this turn, or waits
};

}  // namespace espalier::launcher
