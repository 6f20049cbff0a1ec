#include "launcher/world/start_gate.hpp"

namespace espalier::launcher {

void StartGate::ask(const ServerId& id) {
  if (closed_) return;
  if (waiting_.empty() && starting_.size() < most_) return let_in(id);
  if (waiting_.insert(id).second) order_.push_back(id);
}

void StartGate::over(const ServerId& id) {
  waiting_.erase(id);
  starting_.erase(id);
  // Not at once: a start that fails ends here, and the next one may fail as well.
  if (!waiting_.empty() && !turn_) turn_ = loop_.after(wire::Loop::Milliseconds(0), [this] { next(); });
}

void StartGate::close() {
  closed_ = true;
  waiting_.clear();
  order_.clear();
}

void StartGate::let_in(const ServerId& id) {
  starting_[id] = loop_.after(limit_, [this, id] { over(ServerId(id)); });
  start_(id);
}

void StartGate::next() {
  turn_.reset();
  while (!order_.empty() && starting_.size() < most_) {
    const ServerId id = order_.front();
    order_.pop_front();
    if (waiting_.erase(id) > 0) let_in(id);
  }
}

}  // namespace espalier::launcher
