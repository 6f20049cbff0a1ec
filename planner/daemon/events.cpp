#include "planner/daemon/events.hpp"

#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/event.h"
#include "planner/wire/munge.hpp"

namespace espalier {
namespace {

// At most this many datagrams are read at a time, so that other work gets its turn.
constexpr int kBurst = 64;
constexpr std::size_t kLargest = 16384;
// Credentials that wait for MUNGE. An event that is dropped is noticed at the next poll.
constexpr std::size_t kMostQuestions = 1024;

wire::Descriptor bound(int family, const wire::Endpoint& endpoint, const std::string& what) {
  wire::Descriptor fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) != 0)
    throw Error(what + ": cannot listen for events: " + std::strerror(errno) + "; is another espalierd running?");
  return fd;
}

}  // namespace

EventSockets::EventSockets(wire::Loop& loop, const std::string& path, std::uint16_t udp_port, Trusted trusted,
                           OnEvent on_event)
    : path_(path), trusted_(std::move(trusted)), on_event_(std::move(on_event)), munge_(loop, kMostQuestions) {
  ::unlink(path.c_str());
  local_ = bound(AF_UNIX, wire::local_endpoint(path), path);
  ::chmod(path.c_str(), 0666);  // everybody may send; the sender's uid decides
  const int on = 1;
  if (::setsockopt(local_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    throw Error(path + ": the kernel cannot name senders: " + std::strerror(errno));
  udp_ = bound(AF_INET, wire::resolve("0.0.0.0", udp_port), "UDP port " + std::to_string(udp_port));
  local_watch_ = loop.on_readable(local_.get(), [this] {
    for (int i = 0; i < kBurst && read_local(); ++i) {
    }
  });
  udp_watch_ = loop.on_readable(udp_.get(), [this] {
    for (int i = 0; i < kBurst && read_udp(); ++i) {
    }
  });
}

EventSockets::~EventSockets() { ::unlink(path_.c_str()); }

void EventSockets::close_network() {
  udp_watch_.reset();
  udp_.reset();
}

bool EventSockets::read_local() {
  char text[ESPALIER_EVENT_MAX + 1];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + 256];
  iovec part{text, sizeof text};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(local_.get(), &message, MSG_CMSG_CLOEXEC);
  if (size < 0) return errno == EINTR;
  uid_t uid = static_cast<uid_t>(-1);
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
      uid = sender.uid;
    } else if (c->cmsg_type == SCM_RIGHTS) {  // unwanted descriptors are closed
      const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
        ::close(fd);
      }
    }
  }
  take(std::string(text, static_cast<std::size_t>(size)), uid, "events.sock");
  return true;
}

bool EventSockets::read_udp() {
  std::string text(kLargest, '\0');
  const ssize_t size = ::recv(udp_.get(), text.data(), text.size(), 0);
  if (size < 0) return errno == EINTR;
  text.resize(static_cast<std::size_t>(size));
  if (!text.starts_with("MUNGE:")) return drop("UDP: no credential"), true;
  const bool posted = munge_.post([this, text = std::move(text)]() -> std::function<void()> {
    try {
      return [this, credential = wire::munge_open(text)] { take(credential.payload, credential.uid, "UDP"); };
    } catch (const Error& error) {
      return [this, why = std::string(error.what())] { drop(why); };
    }
  });
  if (!posted) drop("UDP: too many credentials at once");
  return true;
}

void EventSockets::take(const std::string& text, uid_t uid, const char* socket) {
  try {
    if (!trusted_(uid)) throw Error("uid " + std::to_string(uid) + " may not report events");
    const auto event = wire::parse_event(text);
    spdlog::debug("{}: {}", socket, text);
    on_event_(event);
  } catch (const Error& error) {
    drop(std::string(socket) + ": " + error.what());
  }
}

void EventSockets::drop(const std::string& why) {
  // Only the 1st, 2nd, 4th, 8th, ... drop is logged, so that a flood does not fill the log.
  ++dropped_;
  if ((dropped_ & (dropped_ - 1)) == 0) spdlog::warn("event dropped ({} so far): {}", dropped_, why);
}

}  // namespace espalier
