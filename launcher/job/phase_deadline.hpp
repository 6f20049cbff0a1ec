// The time limit of the job's present phase. Time in which Slurm has the job suspended does not count.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "launcher/job/state_machine.hpp"
#include "launcher/process/awake_timer.hpp"
#include "planner/wire/config.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class PhaseDeadline {
 public:
  struct Situation {
    double step_seconds = 0;   // that a step may be expected to take
    double early_seconds = 0;  // for which state may be sent before the pause
    int start_seconds = 0;     // the program's own limit for a start; the site's holds where it is longer
    HandoffMethod method = HandoffMethod::adopt;
    // Of a recovery: whether a generation that goes on has been started, and whether its workers are ready.
    bool attempts = false, loads = false;
  };
  struct Callbacks {
    std::function<void(Event, const std::string& why)> over;
    std::function<bool()> everyone_is_there;  // all workers of the next generation have said hello
  };
  PhaseDeadline(wire::Loop& loop, const wire::Config& config, Callbacks callbacks);

  // Starts the time of `phase`.
  void set(JobPhase phase, const Situation& situation);
  void reset() { timer_.stop(); }

 private:
  // `later`: so much longer than the limit that the user is told.
  void give_up(int seconds, Event event, const char* what, std::chrono::milliseconds later = {});
  void wait_for_start(int seconds, Event event, const char* why);

  wire::Loop& loop_;
  const wire::Config& config_;
  Callbacks callbacks_;
  AwakeTimer timer_{loop_};
};

}  // namespace espalier::launcher
