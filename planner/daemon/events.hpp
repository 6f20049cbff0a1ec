// The planner's datagram sockets. slurmctld's plugin sends to events.sock, where the kernel names
// the sender. The nodes' epilogs send by UDP, where a MUNGE credential names the sender.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/event.hpp"
#include "planner/wire/loop.hpp"
#include "planner/wire/side_thread.hpp"

namespace espalier {

class EventSockets {
 public:
  using OnEvent = std::function<void(const wire::Event&)>;
  using Trusted = std::function<bool(uid_t)>;

  // Replaces a stale socket file. Throws Error. An event whose sender is not `trusted` is dropped
  // and counted.
  EventSockets(wire::Loop& loop, const std::string& path, std::uint16_t udp_port, Trusted trusted, OnEvent on_event);
  EventSockets(const EventSockets&) = delete;
  EventSockets& operator=(const EventSockets&) = delete;
  ~EventSockets();

  // No more events over the network; those of slurmctld's plugin still come.
  void close_network();
  long dropped() const { return dropped_; }

 private:
  bool read_local();  // reads one datagram; false: none is waiting
  bool read_udp();
  void take(const std::string& text, uid_t uid, const char* socket);
  void drop(const std::string& why);

  std::string path_;
  Trusted trusted_;
  OnEvent on_event_;
  wire::SideThread munge_;  // a stranger's datagrams must not stall the loop
  wire::Descriptor local_, udp_;
  wire::Watch local_watch_, udp_watch_;
  long dropped_ = 0;
};

}  // namespace espalier
