#include "launcher/world/server/launcher_link.hpp"

#include <cstdio>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
constexpr int kMissedHeartbeats = 10;
constexpr std::chrono::seconds kFindLauncher{10};
}  // namespace

LauncherLink::LauncherLink(wire::Loop& loop, std::chrono::milliseconds heartbeat, Callbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)), beats_(loop.every(heartbeat, [this] { beat(); })) {}

void LauncherLink::dial(wire::Caller caller, const std::string& host, std::uint16_t port) {
  limit_ = loop_.after(kFindLauncher, [this] {
    if (!connection_) callbacks_.lost();
  });
  dialler_ = wire::dial_tcp(
      loop_, std::move(caller), host, port, [this](const wire::ConnectionPtr& connection) { made(connection); },
      [](const std::string&) {});
}

void LauncherLink::made(const wire::ConnectionPtr& connection) {
  if (connection_) return callbacks_.lost();  // the first one was lost
  connection_ = connection;
  missed_ = 0;
  connection->on_frame = [this](const wire::Frame& frame) {
    missed_ = 0;
    try {
      callbacks_.handle(frame);
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: ranks: %s\n", error.what());
      callbacks_.lost();
    }
  };
  connection->on_closed = [this](const std::string&) {
    connection_.reset();
    callbacks_.lost();
  };
  connection->send(callbacks_.hello());
}

void LauncherLink::beat() {
  if (!connection_) return;
  if (++missed_ > kMissedHeartbeats) return callbacks_.lost();
  tell(wire::Heartbeat{});
}

}  // namespace espalier::launcher
