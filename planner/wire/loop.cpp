#include "planner/wire/loop.hpp"

#include <event2/event.h>

#include <iterator>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::wire {

struct Watch::Impl {
  event* handle = nullptr;
  Loop::Callback callback;
  Loop* loop = nullptr;
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (handle != nullptr) event_free(handle);
  }
};

namespace {

void fire(evutil_socket_t, short, void* self) {
  // A copy, because the callback may destroy its own Watch.
  const Loop::Callback callback = static_cast<Watch::Impl*>(self)->callback;
  Loop* loop = static_cast<Watch::Impl*>(self)->loop;
  try {
    callback();
  } catch (...) {  // an exception must not pass through libevent's C code
    loop->fail(std::current_exception());
  }
}

Watch watch(Loop& loop, int fd, short what, Loop::Callback callback, const timeval* timeout) {
  auto impl = std::make_shared<Watch::Impl>();
  impl->callback = std::move(callback);
  impl->loop = &loop;
  impl->handle = event_new(loop.base(), fd, what, fire, impl.get());
  if (impl->handle == nullptr || event_add(impl->handle, timeout) != 0) throw Error("event loop: cannot watch");
  return Watch(std::move(impl));
}

timeval to_timeval(Loop::Milliseconds time) {
  return {static_cast<time_t>(time.count() / 1000), static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

}  // namespace

Loop::Loop() : base_(event_base_new()) {
  if (base_ == nullptr) throw Error("event loop: cannot be created");
}

Loop::~Loop() {
  deferred_.clear();
  event_base_free(base_);
}

void Loop::run() {
  stopped_ = false;
  while (!stopped_) {
    // Taken out first, because a deferred callback may defer another.
    auto ready = std::exchange(deferred_, {});
    for (auto callback = ready.begin(); callback != ready.end(); ++callback) {
      try {
        (*callback)();
      } catch (...) {  // the callbacks behind it stay queued
        deferred_.insert(deferred_.begin(), std::make_move_iterator(callback + 1),
                         std::make_move_iterator(ready.end()));
        throw;
      }
    }
    if (stopped_) break;
    event_base_loop(base_, deferred_.empty() ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void Loop::fail(std::exception_ptr failure) {
  failure_ = std::move(failure);
  event_base_loopbreak(base_);
}

void Loop::stop() {
  stopped_ = true;
  event_base_loopbreak(base_);
}

Watch Loop::after(Milliseconds delay, Callback callback) {
  const timeval time = to_timeval(delay);
  return watch(*this, -1, EV_TIMEOUT, std::move(callback), &time);
}

Watch Loop::every(Milliseconds period, Callback callback) {
  const timeval time = to_timeval(period);
  return watch(*this, -1, EV_TIMEOUT | EV_PERSIST, std::move(callback), &time);
}

Watch Loop::on_signal(int number, Callback callback) {
  return watch(*this, number, EV_SIGNAL | EV_PERSIST, std::move(callback), nullptr);
}

Watch Loop::on_readable(int fd, Callback callback) {
  return watch(*this, fd, EV_READ | EV_PERSIST, std::move(callback), nullptr);
}

void Loop::defer(Callback callback) { deferred_.push_back(std::move(callback)); }

}  // namespace espalier::wire
