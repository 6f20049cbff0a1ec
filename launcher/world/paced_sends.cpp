#include "launcher/world/paced_sends.hpp"

#include <set>
#include <utility>

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kReads{10};  // until it is looked again whether a server has read
}

void PacedSends::send(const ServerId& id, Frame frame) {
  Waiting one{id, std::move(frame)};
  if (!waiting_.empty() || sent_ >= kAtOnce || full(id)) waiting_.push_back(std::move(one));
  else pass(one);
  if (!turn_) look_again(wire::Loop::Milliseconds(0));
}

void PacedSends::drop(const ServerId& id) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.id == id; });
}

void PacedSends::pass(const Waiting& one) {
  std::string frame = one.frame();
  sent_ += frame.size();
  send_(one.id, std::move(frame));
}

void PacedSends::look_again(wire::Loop::Milliseconds wait) {
  turn_ = loop_.after(wait, [this] { next_turn(); });
}

void PacedSends::next_turn() {
  turn_.reset();
  sent_ = 0;
  std::set<ServerId> full_ones;
  for (auto one = waiting_.begin(); one != waiting_.end() && sent_ < kAtOnce;) {
    if (full_ones.contains(one->id) || full(one->id)) {
      full_ones.insert(one->id);
      ++one;
    } else {
      pass(*one);
      one = waiting_.erase(one);
    }
  }
  if (sent_ > 0) look_again(wire::Loop::Milliseconds(0));
  else if (!waiting_.empty()) look_again(kReads);
}

}  // namespace espalier::launcher
