#include "planner/wire/side_thread.hpp"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
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
  bool calling = false;  // a call is under way
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
      calling = true;
      lock.unlock();
      auto result = next();
      next = nullptr;
      lock.lock();
      calling = false;
      if (!result) continue;
      done.push_back(std::move(result));
      const std::uint64_t one = 1;
      if (::write(ready.get(), &one, sizeof one) < 0) continue;  // only when already signalled
    }
  }
};

SideThread::SideThread(Loop& loop, std::size_t most, End end, int nice)
    : shared_(std::make_shared<Shared>()), most_(most), end_(end) {
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
  thread_ = std::thread([shared = shared_, nice] {
    // Signals are the loop's thread's.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    if (nice != 0) ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nice);
    shared->run();
  });
}

SideThread::~SideThread() {
  watch_.reset();
  bool hangs = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->work.clear();
    shared_->wake.notify_all();
    hangs = shared_->calling && end_ == End::leave;
  }
  // An idle thread ends at once. Left behind, it could end while the process does, in data of libraries that is gone.
  if (hangs) thread_.detach();
  else thread_.join();
  const std::lock_guard lock(shared_->mutex);
  shared_->done.clear();
}

bool SideThread::post(Work work) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->work.size() >= most_) return false;
  shared_->work.push_back(std::move(work));
  shared_->wake.notify_one();
  return true;
}

}  // namespace espalier::wire
