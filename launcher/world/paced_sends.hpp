// What the peers of one generation are sent, e.g. its rank servers: so many bytes at each turn of the loop. A message
// that names every rank takes seconds to copy and to sign for thousands of peers. Heartbeats, and all else that the
// launcher does, go on meanwhile. A peer that has not read what it was sent gets no more before it has: its connection
// would be closed for what waits there. What one peer is sent keeps its order. Runs on the loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

// `Id`: of a peer. paced_sends.cpp says for which types there is one.
template <class Id>
class PacedSends {
 public:
  static constexpr std::size_t kAtOnce = 8u << 20;  // bytes; one message more may begin below it
  // So many unread bytes, and one message more, are less than a connection holds.
  static constexpr std::size_t kUnread = 4u << 20;
  // So many bytes that all peers have not read, and those of one turn more, fit into the memory of a small launcher.
  static constexpr std::size_t kUnreadInAll = 128u << 20;
  using Send = std::function<void(const Id&, std::string frame)>;
  using Unread = std::function<std::size_t(const Id&)>;  // bytes
  using Frame = std::function<std::string()>;            // an encoded frame

  // `loop` outlives this object. `send` must not call it. `unread` may be empty: then peers read at once.
  PacedSends(wire::Loop& loop, Send send, Unread unread = {})
      : loop_(loop), send_(std::move(send)), unread_(std::move(unread)) {}

  // `frame` is called when its turn comes, and must not throw.
  void send(const Id& id, Frame frame);
  bool waits(const Id& id) const { return frames_.contains(id); }  // something for this peer does
  void drop(const Id& id);                                         // what still waits for this peer: it is gone

 private:
  bool full(const Id& id) const { return unread_ && unread_(id) > kUnread; }
  std::size_t unread_in_all();
  void pass(const Id& id, const Frame& frame);
  void pass_next(const Id& id);
  void next_turn();
  void look_again(wire::Loop::Milliseconds wait);

  wire::Loop& loop_;
  const Send send_;
  const Unread unread_;
  std::map<Id, std::deque<Frame>> frames_;  // that wait; no peer has an empty list
  std::deque<Id> turns_;                    // whose frame is the next; those of a peer that was dropped mean nothing
  std::set<Id> reading_;                    // peers that had unread bytes when they were last looked at
  std::size_t sent_ = 0;                    // bytes, in this turn of the loop
  std::size_t room_ = kAtOnce;              // bytes that may be sent in this turn
  wire::Watch turn_;                        // set where something was sent in this turn, or waits
};

}  // namespace espalier::launcher
