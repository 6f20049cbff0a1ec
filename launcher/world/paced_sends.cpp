#include "launcher/world/paced_sends.hpp"

#include <utility>

#include "launcher/world/placement.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kReads{10};  // until it is looked again whether a peer has read
}

template <class Id>
void PacedSends<Id>::send(const Id& id, Frame frame) {
  if (!frames_.empty() || sent_ >= room_ || full(id)) {
    frames_[id].push_back(std::move(frame));
    turns_.push_back(id);
  } else {
    pass(id, frame);
  }
  if (!turn_) look_again(wire::Loop::Milliseconds(0));
}

template <class Id>
void PacedSends<Id>::drop(const Id& id) {
  frames_.erase(id);
  reading_.erase(id);
}

template <class Id>
std::size_t PacedSends<Id>::unread_in_all() {
  std::size_t sum = 0;
  std::erase_if(reading_, [&](const Id& id) {
    const std::size_t bytes = unread_(id);
    sum += bytes;
    return bytes == 0;
  });
  return sum;
}

template <class Id>
void PacedSends<Id>::pass(const Id& id, const Frame& frame) {
  std::string bytes = frame();
  sent_ += bytes.size();
  if (unread_) reading_.insert(id);
  send_(id, std::move(bytes));
}

template <class Id>
void PacedSends<Id>::pass_next(const Id& id) {
  const auto at = frames_.find(id);
  const Frame frame = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) frames_.erase(at);
  pass(id, frame);
}

template <class Id>
void PacedSends<Id>::look_again(wire::Loop::Milliseconds wait) {
  turn_ = loop_.after(wait, [this] { next_turn(); });
}

template <class Id>
void PacedSends<Id>::next_turn() {
  turn_.reset();
  sent_ = 0;
  room_ = unread_in_all() < kUnreadInAll ? kAtOnce : 0;
  std::set<Id> full_ones;
  for (auto turn = turns_.begin(); turn != turns_.end() && sent_ < room_;) {
    if (waits(*turn) && (full_ones.contains(*turn) || full(*turn))) {
      full_ones.insert(*turn);
      ++turn;
    } else {
      if (waits(*turn)) pass_next(*turn);
      turn = turns_.erase(turn);
    }
  }
  if (sent_ > 0) look_again(wire::Loop::Milliseconds(0));
  else if (!frames_.empty()) look_again(kReads);
}

template class PacedSends<ServerId>;
template class PacedSends<int>;  // ranks

}  // namespace espalier::launcher
