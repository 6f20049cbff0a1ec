#include <event2/listener.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/wire/connection.hpp"
#include "planner/wire/endpoint.hpp"

namespace espalier::wire {
namespace {

class EventListener final : public Listener {
 public:
  EventListener(Loop& loop, Service service, bool local, OnConnection on_connection)
      : loop_(loop), service_(service), local_(local), on_connection_(std::move(on_connection)) {}
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
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (::getsockname(evconnlistener_get_fd(listener_), reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
      if (bound.ss_family == AF_INET) port_ = ntohs(reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
      if (bound.ss_family == AF_INET6) port_ = ntohs(reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port);
    }
  }
  void own_path(const std::string& path) { path_ = path; }
  std::uint16_t port() const override { return port_; }

 private:
  static void on_accept(evconnlistener*, evutil_socket_t fd, sockaddr* address, int size, void* raw) {
    auto* self = static_cast<EventListener*>(raw);
    Descriptor socket(fd);
    Peer peer;
    if (self->local_) {
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
      BufferedConnection::start(self->loop_, self->service_, std::move(socket), BufferedConnection::Side::server,
                                self->local_, std::move(peer), {}, self->on_connection_, nullptr);
    } catch (const Error&) {
      // There is no memory or no random number. This peer is dropped, and the listener goes on.
    }
  }

  Loop& loop_;
  Service service_;
  bool local_;
  OnConnection on_connection_;
  evconnlistener* listener_ = nullptr;
  std::uint16_t port_ = 0;
  std::string path_;
  Watch pause_;
};

}  // namespace

std::unique_ptr<Listener> listen_tcp(Loop& loop, Service service, const std::string& address, std::uint16_t port,
                                     OnConnection on_connection) {
  auto listener = std::make_unique<EventListener>(loop, service, false, std::move(on_connection));
  listener->listen(resolve(address, port), address + ":" + std::to_string(port));
  return listener;
}

std::unique_ptr<Listener> listen_local(Loop& loop, const std::string& path, OnConnection on_connection) {
  auto listener = std::make_unique<EventListener>(loop, Service::planner, true, std::move(on_connection));
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
