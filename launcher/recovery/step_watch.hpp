// The steps of the running generation: the last one, how long they take, and whether one hangs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "planner/wire/loop.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {

class StepWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `hangs` is called when a step is not done within `hang_seconds`, or ten times its usual time if that is longer.
  StepWatch(wire::Loop& loop, double hang_seconds, std::function<void(const std::string& why)> hangs);

  void stepped(const wire::Step& step);
  // Watches for a step that hangs, or stops to. The watch runs until the boundary. At a boundary all ranks have just
  // done a step. A change that is given up before its boundary does not restart the watch's time.
  void watch(bool trains);
  // Another generation trains from now on: its steps take another time.
  void begin_anew() { seconds_ = 0; }
  void begin_anew_after(std::int64_t step);

  std::int64_t step() const { return step_; }  // the last one that was done
  Time last_step_at() const { return last_at_; }
  double seconds() const { return seconds_; }  // of a step of the running generation, smoothed; 0: not known yet
  double longest() const;                      // that a step may be expected to take

 private:
  void check();

  wire::Loop& loop_;
  const double hang_seconds_;
  std::function<void(const std::string&)> hangs_;
  std::int64_t step_ = 0;
  double seconds_ = 0;
  double last_seconds_ = 0;  // of any generation
  Time last_at_{}, progress_at_{}, check_at_{};
  wire::Watch watch_;
};

}  // namespace espalier::launcher
