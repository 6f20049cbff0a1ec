#include "launcher/process/blocking_thread.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::launcher {

BlockingThread::BlockingThread(wire::Loop& loop) : shared_(std::make_shared<Shared>()) {
  shared_->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared_->wake) throw Error(std::string("launch: no event descriptor: ") + std::strerror(errno));
  readable_ = loop.on_readable(shared_->wake.get(), [shared = shared_] {
    std::uint64_t count = 0;
    if (::read(shared->wake.get(), &count, sizeof count) < 0) return;
    std::deque<std::function<void()>> results;
    {
      const std::lock_guard lock(shared->mutex);
      results.swap(shared->results);
    }
    for (const auto& result : results) result();
  });
  // The loop's thread handles signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([shared = shared_] { serve(shared); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BlockingThread::~BlockingThread() {
  bool idle = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->work.clear();
    shared_->changed.notify_all();
    idle = shared_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return !shared_->busy; });
  }
  if (idle) thread_.join();
  else thread_.detach();
}

void BlockingThread::post(std::function<std::function<void()>()> work) {
  const std::lock_guard lock(shared_->mutex);
  shared_->work.push_back(std::move(work));
  shared_->changed.notify_all();
}

void BlockingThread::post_first(std::function<std::function<void()>()> work) {
  const std::lock_guard lock(shared_->mutex);
  shared_->work.push_front(std::move(work));
  shared_->changed.notify_all();
}

bool BlockingThread::drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, timeout, [this] { return !shared_->busy && shared_->work.empty(); });
}

void BlockingThread::serve(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->stop || !shared->work.empty(); });
    if (shared->stop) return;
    const auto work = std::move(shared->work.front());
    shared->work.pop_front();
    shared->busy = true;
    lock.unlock();
    auto result = work();
    lock.lock();
    shared->busy = false;
    if (result) shared->results.push_back(std::move(result));
    shared->changed.notify_all();
    const std::uint64_t one = 1;
    // EAGAIN: the descriptor's counter is full, so that the loop wakes up anyway.
    if (::write(shared->wake.get(), &one, sizeof one) < 0 && errno != EAGAIN) return;
  }
}

}  // namespace espalier::launcher
