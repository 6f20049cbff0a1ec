// One rank's part of the work at a checkpoint, in a thread of its own, and a watch that sees whether it gets on.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "torchrt/checkpoint/write_progress.hpp"

namespace espalier::torchrt {

// For one thread, beside the one that it starts.
class BackgroundWork {
 public:
  using Task = std::function<void(WriteProgress&)>;

  // Starts a thread. It is detached, so that a rank that must leave now does not wait for a disk. `what`: the work in
  // words, after "has not finished". `now`: seconds. Throws std::system_error where no thread can be made; no work is
  // under way then.
  void start(std::string what, double now, Task task);
  bool under_way() const { return result_.valid(); }
  // Waits for the end of the work, at most so long. True: it has ended.
  bool ended(std::chrono::milliseconds most = {}) const;
  // After the end. Throws what the task threw.
  void take() { result_.get(); }
  // Looks whether the work gets on. Returns for how many seconds it has stood still.
  double stands_still(double now);
  // Nobody waits for it any more. The thread ends itself as soon as it gets on.
  void give_up() { progress_->give_up(); }
  const std::string& what() const { return what_; }

 private:
  std::future<void> result_;
  std::shared_ptr<WriteProgress> progress_;
  std::string what_;
  std::int64_t seen_ = 0;
  double moved_ = 0;  // when it was last seen to get on
};

}  // namespace espalier::torchrt
