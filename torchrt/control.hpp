// The worker's connection to its launcher. When it is lost, the process ends, whatever it is doing.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "planner/wire/awake_limit.hpp"
#include "planner/wire/client.hpp"
#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// The launcher said `exit`.
struct LeaveNow {};

// For one thread. It has a watcher thread, which sees the loss of the launcher while the first
// thread computes or waits in MPI. The watcher also sends heartbeats to the launcher.
class Control {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Throws Error when the launcher cannot be reached or authenticated within 10 s. `heartbeat`: the
  // time between two heartbeats, which begin after the first message; 0: no heartbeats.
  Control(wire::Caller caller, const std::string& host, std::uint16_t port, int rank, Milliseconds heartbeat = {});
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  template <class Message>
  void send(const Message& message) {
    const std::lock_guard lock(sending_);
    client_.send(message);
    // The first heartbeat goes at once: the launcher counts silence from the first one on.
    if (!introduced_.exchange(true) && heartbeat_.count() > 0) client_.send(wire::Heartbeat{});
  }
  // Tells the launcher that this process gets on with work that is no step. Cheap: it tells once per heartbeat at most,
  // and not at all where the launcher wants no heartbeats.
  void progress();
  // The next message of any type. Throws LeaveNow on `exit`, Error when `limit` is over. `what`
  // names the awaited message in the Error.
  wire::Frame next(const std::string& what, wire::AwakeLimit& limit);
  // A message that has already arrived. Throws LeaveNow on `exit`.
  std::optional<wire::Frame> poll();
  [[noreturn]] static void unexpected(const std::string& got, const std::string& wanted);
  // From now on the launcher may hang up, because the process is about to end by itself.
  void farewell() { leaving_ = true; }

 private:
  void watch();
  void beat();

  wire::Client client_;
  int rank_;
  Milliseconds heartbeat_;
  UniqueFd stop_;
  std::mutex sending_;
  std::chrono::steady_clock::time_point progress_told_{};  // the first thread's
  std::atomic<bool> introduced_{false};
  std::atomic<bool> leaving_{false};
  std::thread watcher_;
};

}  // namespace espalier::torchrt
