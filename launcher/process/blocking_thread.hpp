// Runs blocking calls one after the other on a thread of their own and hands the results to the loop: calls of Slurm,
// so that a slow slurmctld never stalls the launcher, and writing output, so that a reader that has stopped does not.
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
  ~BlockingThread();  // gives a call in progress one second, then leaves it behind (the process is about to end)
  BlockingThread(const BlockingThread&) = delete;
  BlockingThread& operator=(const BlockingThread&) = delete;

  // `work` runs on the thread and returns what then runs on the loop. It must not throw.
  void post(std::function<std::function<void()>()> work);
  // Before whatever is queued: giving back does not wait for questions.
  void post_first(std::function<std::function<void()>()> work);
  // For the end of the process: waits until everything posted has run, at most `timeout`. False when it has not.
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
