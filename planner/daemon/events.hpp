// The datagram sockets: events.sock for slurmctld's plugin (the kernel names the sender) and UDP for the nodes' epilogs
// (a MUNGE credential names it).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/event.hpp"
#include "planner/wire/loop.hpp"

namespace espalier {

class EventSockets {
 public:
  using OnEvent = std::function<void(const wire::Event&)>;
  using Trusted = std::function<bool(uid_t)>;

  // Replaces a stale socket file. Throws Error. Events of senders that are not `trusted` are dropped and counted.
  EventSockets(wire::Loop& loop, const std::string& path, std::uint16_t udp_port, Trusted trusted, OnEvent on_event);
  EventSockets(const EventSockets&) = delete;
  EventSockets& operator=(const EventSockets&) = delete;
  ~EventSockets();

  long dropped() const { return dropped_; }

 private:
  bool read_local();  // one datagram; false: none is there
  bool read_udp();
  void take(const std::string& text, uid_t uid, const char* socket);
  void drop(const std::string& why);

  std::string path_;
  Trusted trusted_;
  OnEvent on_event_;
  wire::Descriptor local_, udp_;
  wire::Watch local_watch_, udp_watch_;
  long dropped_ = 0;
};

}  // namespace espalier
