// Runs calls that may block, one after the other, on a thread of its own, and hands their results to
// the loop. MUNGE is asked here, so that a stopped munged or a crowd of strangers does not stall the
// loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "planner/wire/loop.hpp"

namespace espalier::wire {

class SideThread {
 public:
  using Work = std::function<std::function<void()>()>;
  // At most `most` calls wait. Throws Error.
  SideThread(Loop& loop, std::size_t most);
  // No more callbacks. A call under way is left behind with the thread.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // `work` runs on the thread and must not throw. The function that it returns, if any, runs on the
  // loop. False: too many calls wait; `work` is dropped.
  bool post(Work work);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::size_t most_;
  Watch watch_;
};

}  // namespace espalier::wire
