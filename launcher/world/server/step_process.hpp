// The process that starts a Slurm step and stays with it, and what the step prints. Runs on the loop.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "launcher/process/child.hpp"
#include "launcher/world/server/rank_output.hpp"

namespace espalier::launcher {

class StepProcess {
 public:
  struct Callbacks {
    std::function<void(const std::string&)> line;  // on its standard output, at most 4 KiB of it
    std::function<void(const std::string&)> said;  // text on its standard error
    std::function<void(int status)> ended;         // as waitpid() gave it; all that it printed was told
  };
  // Throws Error when it cannot be started.
  StepProcess(wire::Loop& loop, const std::vector<std::string>& command, const std::vector<std::string>& environment,
              Callbacks callbacks);
  bool running() const { return child_.running(); }
  pid_t pid() const { return child_.pid(); }
  void terminate() const { child_.signal_alone(SIGTERM); }  // srun ends the step then

 private:
  Child::Traits traits() const;
  void printed(const std::string& text);
  void ended(int status);

  Callbacks callbacks_;
  std::string line_;  // that has not ended
  RankOutput output_, errors_;
  Child child_;
};

}  // namespace espalier::launcher
