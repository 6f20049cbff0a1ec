// A child process that cannot outlive its parent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

// What a child starts with: this process's environment without what belongs to the Slurm step, PMI and SPANK, plus
// `extra` ("NAME=value").
std::vector<std::string> clean_environment(const std::vector<std::string>& extra);

// Owns one child, in a process group of its own and with PR_SET_PDEATHSIG: SIGKILL of this process kills it too. Start
// it from the main thread only (the signal follows the thread that forked).
class Child {
 public:
  struct Traits {
    bool keeps_stdin = false;               // else it reads /dev/null
    bool blocks_term = false;               // SIGTERM
    int output = -1, errors = -1;           // become its standard output and standard error; -1: those of this process
    int inherited = -1;                     // a descriptor that it keeps under its number; -1: none
    std::string folder = {};                // working directory; empty: that of this process
    std::vector<std::int64_t> limits = {};  // soft resource limits by number, up to the hard ones; -1: unlimited
  };
  // Throws Error when the program cannot be started, or has not within 10 s.
  Child(wire::Loop& loop, const std::vector<std::string>& command, const std::vector<std::string>& environment,
        Traits traits, std::function<void(int status)> on_exit);
  ~Child();  // SIGKILL to the group, reaped within 2 s or left to init
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void on_exit(std::function<void(int status)> callback) { on_exit_ = std::move(callback); }
  pid_t pid() const { return pid_; }
  bool running() const { return running_; }
  void signal(int number) const;  // to the child's process group
  void signal_alone(int number) const;

 private:
  void reap();
  pid_t pid_ = -1;
  bool running_ = false;
  std::function<void(int)> on_exit_;
  wire::Watch watch_;
  int pidfd_ = -1;
};

// The soft resource limits of this process, as Child::Traits has them.
std::vector<std::int64_t> resource_limits();

// Exit code as a shell would report it.
int exit_code(int status);

}  // namespace espalier::launcher
