// The event loop of the daemon, the launcher and the keeper. Wraps libevent. Each loop has one
// thread.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

struct event;
struct event_base;

namespace espalier::wire {

// Owns a registration. Destroying it stops the callbacks.
class Watch {
 public:
  Watch() = default;
  struct Impl;
  explicit Watch(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const { return impl_ != nullptr; }
  void reset() { impl_.reset(); }

 private:
  std::shared_ptr<Impl> impl_;
};

class Loop {
 public:
  using Callback = std::function<void()>;
  using Milliseconds = std::chrono::milliseconds;

  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs until stop(). Rethrows what a callback threw; run() may then be called again.
  void run();
  void stop();                                                       // from a callback
  [[nodiscard]] Watch after(Milliseconds delay, Callback callback);  // once
  [[nodiscard]] Watch every(Milliseconds period, Callback callback);
  [[nodiscard]] Watch on_signal(int number, Callback callback);
  [[nodiscard]] Watch on_readable(int fd, Callback callback);  // the caller keeps owning fd
  void defer(Callback callback);                               // runs at the loop's next turn
  void fail(std::exception_ptr failure);                       // ends run() with this exception
  event_base* base() const { return base_; }

 private:
  event_base* base_;
  std::vector<Callback> deferred_;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace espalier::wire
