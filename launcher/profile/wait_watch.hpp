// Looks once a second whether a profile job may go on: Slurm does not take its GPU back, and the job for which it
// measures still waits. Runs on the loop.
#pragma once

#include <functional>
#include <string>

#include "launcher/profile/profile_questions.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class WaitWatch {
 public:
  struct Callbacks {
    std::function<void()> preempted;
    std::function<void(int code, const std::string& why)> over;  // it is to end with this exit code
  };
  // `questions` outlives this object.
  WaitWatch(wire::Loop& loop, const ProfileQuestions& questions, Callbacks callbacks);

 private:
  void look();

  const ProfileQuestions& questions_;
  Callbacks callbacks_;
  int looks_ = 0;
  int lost_ = 0;  // questions in a row without an answer
  wire::Watch watch_;
};

}  // namespace espalier::launcher
