#include "planner/wire/side_thread.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::wire {

// Outlives the object when the thread hangs in a call.
struct SideThread::Shared {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Work> work;
  std::deque<std::function<void()>> done;
  bool stopping = false;
  Descriptor ready;

  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      if (work.empty()) {
        wake.wait(lock);
        continue;
      }
      Work next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      auto result = next();
      next = nullptr;
      lock.lock();
      if (!result) continue;
      done.push_back(std::move(result));
      const std::uint64_t one = 1;
      if (::write(ready.get(), &one, sizeof one) < 0) continue;  // only when already signalled
    }
  }
};

SideThread::SideThread(Loop& loop, std::size_t most) : shared_(std::make_shared<Shared>()), most_(most) {
  shared_->ready.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared_->ready) throw Error("event loop: no file descriptor left; raise the limit (ulimit -n)");
  watch_ = loop.on_readable(shared_->ready.get(), [shared = shared_] {
    std::uint64_t count = 0;
    if (::read(shared->ready.get(), &count, sizeof count) < 0) return;
    std::deque<std::function<void()>> results;
    {
      const std::lock_guard lock(shared->mutex);
      if (shared->stopping) return;
      results.swap(shared->done);
    }
    for (const auto& result : results) result();
  });
  std::thread([shared = shared_] { shared->run(); }).detach();
}

SideThread::~SideThread() {
  watch_.reset();
  const std::lock_guard lock(shared_->mutex);
  shared_->stopping = true;
  shared_->work.clear();
  shared_->done.clear();
  shared_->wake.notify_all();
}

bool SideThread::post(Work work) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->work.size() >= most_) return false;
  shared_->work.push_back(std::move(work));
  shared_->wake.notify_one();
  return true;
}

}  // namespace espalier::wire
