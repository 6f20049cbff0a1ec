// The end of the job: its exit code, and the waits until all that it was lent is given back. Every wait has a limit.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Ending {
 public:
  struct Callbacks {
    std::function<bool()> gave_back;  // no extension is the job's any more
    std::function<void()> leave;      // tells the rank servers to end
    std::function<bool()> left;       // they have ended
    std::function<void()> stop;       // nothing is left to wait for
  };
  Ending(wire::Loop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}

  void finished(int code) { code_ = code; }  // the program ended by itself
  void terminated() { code_ = 128 + SIGTERM; }
  void generation_lost(int code) { loss_code_ = code; }  // the job's code, should it end of this
  void fails();                                          // the job ends of the last loss
  void launcher_failed() {                               // while it was ending
    if (code_ == 0) code_ = 1;
  }
  int code() const { return code_; }
  bool by_signal() const { return code_ == 128 + SIGTERM; }

  // Waits until extensions are given back and the last generation has ended, as it has by `patience`, then until the
  // rank servers have ended, and calls `stop`.
  void await(std::chrono::seconds patience);
  void world_gone() { world_gone_ = true; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  void until_released(Time give_up);
  void until_left(Time give_up);

  wire::Loop& loop_;
  Callbacks callbacks_;
  int code_ = 0;
  std::optional<int> loss_code_;
  bool world_gone_ = false;
  wire::Watch timer_;
};

}  // namespace espalier::launcher
