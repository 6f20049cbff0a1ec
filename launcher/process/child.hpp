// A child process that cannot outlive its parent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/entry.hpp"
#include "planner/wire/descriptor.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

// The environment for a child: this process's environment without the variables of the Slurm step, of srun, PMI and
// SPANK, plus `extra` ("NAME=value"). A variable of `extra` replaces one of the same name.
std::vector<std::string> clean_environment(const std::vector<std::string>& extra);

// Owns one child process. The child has its own process group, and dies with this process (PR_SET_PDEATHSIG), even if
// SIGKILL ends this process. Construct it on the main thread only: the death signal comes when the thread that forked
// ends.
class Child {
 public:
  struct Traits {
    bool keeps_stdin = false;               // false: the child reads /dev/null
    bool blocks_term = false;               // the child starts with SIGTERM blocked
    int output = -1, errors = -1;           // descriptors for its standard output and error; -1: this process's
    int inherited = -1;                     // a descriptor that the child keeps under its number; -1: none
    std::string folder = {};                // working directory; empty: this process's, or the container's
    std::optional<Entry> entry = {};        // of the container that the child enters; none: it stays where this is
    std::vector<std::string> paths = {};    // where the program is looked for instead of in this process's PATH
    std::vector<int> cpus = {};             // on which it runs; empty: on this process's
    std::vector<std::int64_t> limits = {};  // soft resource limits by number, cut to the hard ones; -1: unlimited
    // Given: the constructor does not wait for the program's start. A file system may stall, and the loop must go on.
    // Where the program has not started within 10 s, this is called on the loop instead of `on_exit`.
    std::function<void(const std::string& why)> refused = {};
  };
  // Waits until the program has started, at most 10 s, unless it is told not to. Throws Error when it has not.
  // `on_exit` runs on the loop with the status that waitpid() gave.
  Child(wire::Loop& loop, const std::vector<std::string>& command, const std::vector<std::string>& environment,
        Traits traits, std::function<void(int status)> on_exit);
  // Takes over a process that is this process's child already and leads a process group, such as one that a fork server
  // has made. Throws Error when `pid` is no child.
  Child(wire::Loop& loop, pid_t pid, std::function<void(int status)> on_exit);
  ~Child();  // sends SIGKILL to the group; reaps the child within 2 s or leaves it to init
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Ends these children as their destructors would, but waits 2 s for all together. `on_exit` of none of them is called
  // any more.
  static void end_all(const std::vector<Child*>& children);
  static bool owns(pid_t pid);  // whether a Child of this process has not reaped it yet

  void on_exit(std::function<void(int status)> callback) { on_exit_ = std::move(callback); }
  pid_t pid() const { return pid_; }
  bool running() const { return running_; }
  bool starts() const { return start_.has_value(); }  // it is not known yet whether the program has started
  void signal(int number) const;                      // to the child's process group
  void signal_alone(int number) const;                // to the child only

 private:
  // Of a program that the constructor has not waited for.
  struct Start {
    std::string program;
    wire::Descriptor report;  // ends when the program has started; says why it has not
    std::function<void(const std::string& why)> refused;
    wire::Watch readable, limit;
  };
  void await_start(wire::Loop& loop, Start start);
  bool reported();  // false: the program could not be started, and that was said
  void refuse(const std::string& why);
  void watch(wire::Loop& loop);
  void reap();
  pid_t pid_ = -1;
  bool running_ = false;
  std::function<void(int)> on_exit_;
  wire::Watch watch_;
  std::optional<Start> start_;
  int pidfd_ = -1;
};

// The exit code that a shell would report. `status`: as waitpid() gave it.
int exit_code(int status);

}  // namespace espalier::launcher
