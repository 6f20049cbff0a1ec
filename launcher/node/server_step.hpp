// The Slurm step in which an extension's rank server runs, as its keeper sees it. The server is in a step and not in
// the batch script, because Slurm signals steps when it preempts, and because the step has the job's GPUs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace espalier::launcher {

class ServerStep {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `command`: the srun. Nothing is started yet.
  explicit ServerStep(std::vector<std::string> command) : command_(std::move(command)) {}
  ~ServerStep();  // srun gets SIGTERM and is not waited for
  ServerStep(const ServerStep&) = delete;
  ServerStep& operator=(const ServerStep&) = delete;

  // To be called often, and after each SIGCHLD: starts the step, and again a while after it has ended. Returns the exit
  // code when it has just ended, or could not be started (127).
  std::optional<int> attend(Time now);

 private:
  std::vector<std::string> command_;
  pid_t pid_ = -1;
  Time begun_{}, next_{};
  int failures_ = 0;  // in a row; a step that lived for a while is none
};

}  // namespace espalier::launcher
