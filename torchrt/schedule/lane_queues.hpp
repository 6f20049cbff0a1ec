// The messages of a schedule under check, which meet as Messages says. Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

class LaneQueues {
 public:
  // A receive whose message has come. `place`: in the rank's list.
  struct Arrival {
    int rank = 0;
    std::size_t place = 0;
    bool matches = true;  // false: the sender sends something else
  };

  // `lists`: by rank; they must outlive this object.
  LaneQueues(const std::vector<std::vector<Op>>& lists, Messages messages) : lists_(lists), messages_(messages) {}

  // The rank begins the transfer at `place` of its list; its peer is a rank. Returns what arrives by it, on any rank.
  std::vector<Arrival> begin(int rank, std::size_t place);
  // One sentence for each lane with a transfer that is not done.
  std::vector<std::string> left() const;

 private:
  // Of a rank. The last two are {-1, false} where all that a lane does is one queue.
  struct Key {
    int rank = 0;
    Lane lane = Lane::forward;
    int peer = -1;
    bool receives = false;
    auto operator<=>(const Key&) const = default;
  };
  using Queues = std::map<Key, std::deque<std::size_t>>;  // places in the rank's list

  Key key(int rank, const Op& op) const;
  Key other_side(int rank, const Op& op) const;  // the queue that its peer's transfer is in
  const Op& op(int rank, std::size_t place) const { return lists_[static_cast<std::size_t>(rank)][place]; }
  Arrival arrival(int rank, std::size_t place, const Op& message) const;

  const std::vector<std::vector<Op>>& lists_;
  Messages messages_;
  Queues waiting_;
  Queues to_itself_;  // what a rank sends to itself does not travel
};

}  // namespace espalier::torchrt
