// A Slurm job as a child process: an allocation of salloc, in which one command runs.
//
//   const EndingSignals signals;
//   Salloc salloc({"salloc", "--nodes=1", "hostname"}, [] {}, signals);
//   salloc.watch(Salloc::Clock::now() + std::chrono::minutes(5), signals);
//   if (!salloc.failed()) use(salloc.output);
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/wire/descriptor.hpp"

namespace espalier::cli {

// Blocks SIGINT, SIGTERM and SIGHUP for as long as it lives, so that they can be read and the job be cancelled.
class EndingSignals {
 public:
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;
  int descriptor() const { return descriptor_.get(); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t set_{}, before_{};
  wire::Descriptor descriptor_;
};

// The job ends with this object, and with this process, whatever ends that.
class Salloc {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts `command`, whose first word is "salloc", in a session of its own and without standard input. `prepare` is
  // called in the child, before salloc. Throws Error.
  Salloc(const std::vector<std::string>& command, const std::function<void()>& prepare, const EndingSignals& signals);
  // Gives the nodes back, whatever state this is in.
  ~Salloc();
  Salloc(const Salloc&) = delete;
  Salloc& operator=(const Salloc&) = delete;

  // Reads until salloc has ended, and calls `tick` once a second or so. Throws Error at `until` and at a signal.
  void watch(Clock::time_point until, const EndingSignals& signals, const std::function<void()>& tick = {});

  bool failed() const;
  std::uint32_t job_id() const;  // 0: the job has no nodes yet
  std::string told() const;      // what salloc and the ranks wrote to standard error, at most 2000 bytes of it

  std::string output, errors;

 private:
  struct Pipe {
    wire::Descriptor read, write;
    Pipe();
  };
  bool reap();
  std::uint32_t id_after(const char* words) const;

  Pipe out_, errors_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace espalier::cli
