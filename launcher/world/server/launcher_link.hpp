// A rank server's connection to the launcher: the first one counts. When it is lost, or the launcher is not heard from,
// or does not answer at all, there is no launcher any more. Runs on the loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "planner/wire/rank_messages.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class LauncherLink {
 public:
  struct Callbacks {
    std::function<wire::RankServerHello()> hello;
    std::function<void(const wire::Frame&)> handle;  // may throw Error: the link is lost then
    std::function<void()> lost;
  };
  LauncherLink(wire::Loop& loop, std::chrono::milliseconds heartbeat, Callbacks callbacks);

  // Calls the launcher.
  void dial(wire::Caller caller, const std::string& host, std::uint16_t port);
  bool dialled() const { return dialler_ != nullptr; }
  bool connected() const { return connection_ != nullptr; }
  // Nothing happens when it is not connected.
  template <class Message>
  void tell(const Message& message) const {
    if (connection_) connection_->send(message);
  }

 private:
  void made(const wire::ConnectionPtr& connection);
  void beat();

  wire::Loop& loop_;
  Callbacks callbacks_;
  std::unique_ptr<wire::Dialler> dialler_;
  wire::ConnectionPtr connection_;
  int missed_ = 0;  // heartbeats of the launcher
  wire::Watch beats_, limit_;
};

}  // namespace espalier::launcher
