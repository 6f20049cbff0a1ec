#include <event2/listener.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/wire/connection.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/strangers.hpp"

namespace espalier::wire {
namespace {

// All ranks of a generation come to a launcher in one moment.
constexpr std::size_t kMostOfAddress = 64, kMostStrangers = 512, kMostOfLauncher = 4096;

// Three quarters of the descriptors are for peers that have said who they are.
std::size_t most_strangers(const Door* door) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
  const bool workers = door != nullptr &&
                       std::find(door->services.begin(), door->services.end(), Service::worker) != door->services.end();
  return std::min<std::size_t>(workers ? kMostOfLauncher : kMostStrangers,
                               std::max<std::size_t>(16, limit.rlim_cur / 4));
}

class EventListener final : public Listener {
 public:
  // No `door`: a local socket.
  EventListener(Loop& loop, std::shared_ptr<const Door> door, OnConnection on_connection)
      : loop_(loop),
        door_(std::move(door)),
        on_connection_(std::move(on_connection)),
        most_(most_strangers(door_.get())) {
    if (door_) munge_ = std::make_shared<SideThread>(loop, 2 * most_);
  }
  EventListener(const EventListener&) = delete;
  EventListener& operator=(const EventListener&) = delete;
  ~EventListener() override {
    if (listener_ != nullptr) evconnlistener_free(listener_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  void listen(const Endpoint& endpoint, const std::string& what) {
    listener_ = evconnlistener_new_bind(
        loop_.base(), on_accept, this, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, 128,
        reinterpret_cast<const sockaddr*>(&endpoint.address), static_cast<int>(endpoint.size));
    if (listener_ == nullptr) throw Error(what + ": cannot listen: " + std::strerror(errno));
    // Without free descriptors accept() fails again at once. So the listener pauses before it tries
    // again.
    evconnlistener_set_error_cb(listener_, [](evconnlistener* listener, void* raw) {
      auto* self = static_cast<EventListener*>(raw);
      evconnlistener_disable(listener);
      self->pause_ = self->loop_.after(Loop::Milliseconds(100), [listener] { evconnlistener_enable(listener); });
    });
    const sockaddr_storage bound = own_endpoint(evconnlistener_get_fd(listener_)).address;
    if (bound.ss_family == AF_INET) port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
    if (bound.ss_family == AF_INET6) port_ = ntohs(reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port);
  }
  void own_path(const std::string& path) { path_ = path; }
  std::uint16_t port() const override { return port_; }

 private:
  static void on_accept(evconnlistener*, evutil_socket_t fd, sockaddr* address, int size, void* raw) {
    auto* self = static_cast<EventListener*>(raw);
    Descriptor socket(fd);
    Peer peer;
    if (!self->door_) {
      ucred credentials{};
      socklen_t length = sizeof credentials;
      if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return;
      peer = {credentials.uid, credentials.gid, "local"};
    } else {
      notice_loss(fd, 10);
      Endpoint endpoint;
      endpoint.size = static_cast<socklen_t>(size);
      std::memcpy(&endpoint.address, address, static_cast<std::size_t>(size));
      peer.address = to_string(endpoint);
    }
    try {
      const std::string from = peer.address;
      std::unique_ptr<Login> login;
      if (self->door_) login = server_login(self->door_, to_string(own_endpoint(fd)));
      const bool stranger = login != nullptr;
      const auto made = BufferedConnection::start(self->loop_, std::move(socket), Side::server, std::move(login),
                                                  std::move(peer), self->on_connection_, nullptr, self->munge_);
      if (stranger) self->strangers_.add(from, made);
    } catch (const Error&) {
      // There is no memory or no random number. This peer is dropped, and the listener goes on.
    }
  }

  Loop& loop_;
  std::shared_ptr<const Door> door_;
  OnConnection on_connection_;
  std::shared_ptr<SideThread> munge_;
  const std::size_t most_;
  Strangers strangers_{kMostOfAddress, most_};
  evconnlistener* listener_ = nullptr;
  std::uint16_t port_ = 0;
  std::string path_;
  Watch pause_;
};

}  // namespace

std::unique_ptr<Listener> listen_tcp(Loop& loop, Door door, const std::string& address, std::uint16_t port,
                                     OnConnection on_connection) {
  auto listener =
      std::make_unique<EventListener>(loop, std::make_shared<const Door>(std::move(door)), std::move(on_connection));
  listener->listen(resolve(address, port), address + ":" + std::to_string(port));
  return listener;
}

std::unique_ptr<Listener> listen_local(Loop& loop, const std::string& path, OnConnection on_connection) {
  auto listener = std::make_unique<EventListener>(loop, nullptr, std::move(on_connection));
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) throw Error(path + ": exists and is no socket; remove it or choose another run_dir");
    ::unlink(path.c_str());
  }
  listener->listen(local_endpoint(path), path);
  ::chmod(path.c_str(), 0666);
  listener->own_path(path);
  return listener;
}

}  // namespace espalier::wire
