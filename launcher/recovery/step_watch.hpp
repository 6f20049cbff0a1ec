// The steps of the running generation: the last one, how long they take, and whether training hangs.
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

  // How long what follows the last step may take. A checkpoint of a large model to a slow disk takes many minutes.
  static constexpr double kAfterLastSeconds = 3600;

  // `hangs` is called when a step is not done within `hang_seconds`, or ten times its usual time if that is longer.
  // What follows the last step is no step: it has `after_last_seconds`, or `hang_seconds` if that is longer.
  StepWatch(wire::Loop& loop, double hang_seconds, std::function<void(const std::string& why)> hangs,
            double after_last_seconds = kAfterLastSeconds);

  void stepped(const wire::Step& step);
  // The generation gets on with work that is no step, e.g. a validation. Each limit counts from here again.
  void progressed();
  // Watches for a step that hangs, or stops to. The watch runs until the boundary. At a boundary all ranks have just
  // done a step. A change that is given up before its boundary does not restart the watch's time. `total_steps`: the
  // number of the last step; 0: not known.
  void watch(bool trains, std::int64_t total_steps = 0);
  // Another generation trains from now on: its steps take another time.
  void begin_anew() { seconds_ = 0; }
  void begin_anew_after(std::int64_t step);

  std::int64_t step() const { return step_; }  // the last one that was done
  // When the running generation last told of work: the end of a step, or of a part of a validation or of a checkpoint
  // after it.
  Time last_work_at() const { return worked_at_; }
  Time last_step_at() const { return stepped_at_; }  // the end of the last step
  double seconds() const { return seconds_; }        // of a step of the running generation, smoothed; 0: not known yet
  double longest() const;                            // that a step may be expected to take
  // The longest time between two steps of one generation, e.g. for a checkpoint that is written at a boundary.
  double between_seconds() const { return between_seconds_; }

 private:
  void check();
  bool all_done() const { return total_steps_ > 0 && step_ >= total_steps_; }
  double limit() const;

  wire::Loop& loop_;
  const double hang_seconds_, after_last_seconds_;
  std::function<void(const std::string&)> hangs_;
  std::int64_t step_ = 0, total_steps_ = 0;
  double seconds_ = 0;
  double last_seconds_ = 0;  // of any generation
  double between_seconds_ = 0;
  Time stepped_at_{}, worked_at_{}, progress_at_{}, check_at_{};
  wire::Watch watch_;
};

}  // namespace espalier::launcher
