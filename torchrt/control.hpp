// The worker's line to its launcher. When it is lost, the process ends, whatever it is doing.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "planner/wire/client.hpp"
#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// The launcher said `exit`.
struct LeaveNow {};

// One thread, beside a watcher of its own that sees the loss of the launcher while this thread computes or waits in
// MPI, and tells the launcher that the process is there.
class Control {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Throws Error when the launcher cannot be reached or authenticated within 10 s. `heartbeat`: after the first message
  // the launcher hears from this process so often, whatever it is doing; 0: not.
  Control(const std::string& host, std::uint16_t port, int rank, Milliseconds heartbeat = {});
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  template <class Message>
  void send(const Message& message) {
    const std::lock_guard lock(sending_);
    client_.send(message);
    // At once: silence counts from the first heartbeat on.
    if (!introduced_.exchange(true) && heartbeat_.count() > 0) client_.send(wire::Heartbeat{});
  }
  // The next message of type Message. Throws LeaveNow on `exit`, Error on another message or when `timeout` passes.
  template <class Message>
  Message expect(Milliseconds timeout) {
    const wire::Frame frame = next(Message::type, timeout);
    if (frame.type != Message::type) unexpected(frame.type, Message::type);
    return wire::from_frame<Message>(frame);
  }
  // Whatever comes next. Throws LeaveNow on `exit`, Error when `timeout` passes; `what` is waited for.
  wire::Frame next(const std::string& what, Milliseconds timeout);
  // What is there already.
  std::optional<wire::Frame> poll();
  [[noreturn]] static void unexpected(const std::string& got, const std::string& wanted);
  // From now on the launcher may hang up: the process is about to end by itself.
  void farewell() { leaving_ = true; }

 private:
  void watch();
  void beat();
  wire::Client client_;
  int rank_;
  Milliseconds heartbeat_;
  UniqueFd stop_;
  std::mutex sending_;
  std::atomic<bool> introduced_{false};
  std::atomic<bool> leaving_{false};
  std::thread watcher_;
};

}  // namespace espalier::torchrt
