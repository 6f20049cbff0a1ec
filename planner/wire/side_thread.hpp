// Runs calls that may block or take long, one after the other, on a thread of its own, and hands their
// results to the loop. MUNGE is asked on one, so that a stopped munged or a crowd of strangers does not
// stall the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

#include "planner/wire/loop.hpp"

namespace espalier::wire {

class SideThread {
 public:
  using Work = std::function<std::function<void()>()>;
  // What becomes of a call under way when the object goes: one that may hang is left behind with the
  // thread, one that only computes is waited for. A thread without a call is always waited for.
  enum class End { leave, wait };
  // At most `most` calls wait. `nice`: the thread's nice value, where the process may have it. Throws Error.
  SideThread(Loop& loop, std::size_t most, End end = End::leave, int nice = 0);
  ~SideThread();  // no more callbacks
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // `work` runs on the thread and must not throw. The function that it returns, if any, runs on the
  // loop. False: too many calls wait; `work` is dropped.
  bool post(Work work);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::size_t most_;
  End end_;
  Watch watch_;
  std::thread thread_;
};

}  // namespace espalier::wire
