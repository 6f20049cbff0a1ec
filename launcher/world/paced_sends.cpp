#include "launcher/world/paced_sends.hpp"

#include <utility>

namespace espalier::launcher {

void PacedSends::send(const ServerId& id, Frame frame) {
  Waiting one{id, std::move(frame)};
  if (!waiting_.empty() || sent_ >= kAtOnce) return waiting_.push_back(std::move(one));
  pass(one);
  if (!turn_) turn_ = loop_.after(wire::Loop::Milliseconds(0), [this] { next_turn(); });
}

void PacedSends::drop(const ServerId& id) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.id == id; });
}

void PacedSends::pass(const Waiting& one) {
  std::string frame = one.frame();
  sent_ += frame.size();
  send_(one.id, std::move(frame));
}

void PacedSends::next_turn() {
  turn_.reset();
  sent_ = 0;
  while (!waiting_.empty() && sent_ < kAtOnce) {
    pass(waiting_.front());
    waiting_.pop_front();
  }
  if (sent_ > 0) turn_ = loop_.after(wire::Loop::Milliseconds(0), [this] { next_turn(); });
}

}  // namespace espalier::launcher
