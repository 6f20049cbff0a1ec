// Work that many events of one moment ask for. It is done once for all of them, a moment later.
#pragma once

#include <functional>
#include <utility>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Soon {
 public:
  static constexpr wire::Loop::Milliseconds kMoment{100};

  // `loop` outlives this object.
  Soon(wire::Loop& loop, std::function<void()> work) : loop_(loop), work_(std::move(work)) {}
  // The work is done within kMoment of the first of several calls.
  void ask() {
    if (due_) return;
    due_ = loop_.after(kMoment, [this] {
      due_.reset();
      work_();
    });
  }
  void forget() { due_.reset(); }  // it has been done otherwise

 private:
  wire::Loop& loop_;
  const std::function<void()> work_;
  wire::Watch due_;
};

}  // namespace espalier::launcher
