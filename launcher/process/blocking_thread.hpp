// Runs blocking calls one after the other on its own thread, and hands their results to the loop. Calls of Slurm run
// here, so that a slow slurmctld does not stall the launcher. Writes of output run here, so that a reader that has
// stopped does not stall it either.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class BlockingThread {
 public:
  explicit BlockingThread(wire::Loop& loop);
  // Drops queued calls. Waits one second for the call in progress, then leaves the thread behind: the process is about
  // to end.
  ~BlockingThread();
  BlockingThread(const BlockingThread&) = delete;
  BlockingThread& operator=(const BlockingThread&) = delete;

  // `work` runs on the thread and must not throw. The function that it returns, if any, runs on the loop.
  void post(std::function<std::function<void()>()> work);
  // As post(), but `work` runs before all queued calls. For example, an extension is given back before Slurm is asked
  // about others.
  void post_first(std::function<std::function<void()>()> work);
  // For the end of the process: waits until all posted calls have run, at most `timeout`. False: some have not.
  bool drain(std::chrono::milliseconds timeout);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<std::function<void()>()>> work;
    std::deque<std::function<void()>> results;
    bool busy = false, stop = false;
    wire::Descriptor wake;
  };
  static void serve(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  wire::Watch readable_;
  std::thread thread_;
};

}  // namespace espalier::launcher
