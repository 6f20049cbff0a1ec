// The ranks of a generation, and how they leave: those that have been told to leave, and are still there after a time,
// get SIGTERM, and SIGKILL soon after. Runs on the loop.
#pragma once

#include <functional>
#include <memory>

#include "launcher/world/ranks.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Departure {
 public:
  // `gone`: the ranks have left, once begin() was called. Never called from inside a call to this object.
  Departure(wire::Loop& loop, std::unique_ptr<Ranks> ranks, std::function<void()> gone)
      : loop_(loop), ranks_(std::move(ranks)), gone_(std::move(gone)) {}
  ~Departure() { *alive_ = false; }  // SIGKILL to the ranks
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

  void begin(wire::Loop::Milliseconds patience);
  bool begun() const { return begun_; }
  void all_ended();  // the ranks say so
  void signal(int number) const { ranks_->signal(number); }

 private:
  void tell();

  wire::Loop& loop_;
  std::unique_ptr<Ranks> ranks_;
  const std::function<void()> gone_;
  bool begun_ = false;
  wire::Watch patience_, kill_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace espalier::launcher
