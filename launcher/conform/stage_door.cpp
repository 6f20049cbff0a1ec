#include "launcher/conform/stage_door.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::launcher::conform {
namespace {

wire::Descriptor listen_on_loopback(int& port) {
  wire::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), 128) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error(std::string("127.0.0.1: cannot listen: ") + std::strerror(errno));
  port = ntohs(address.sin_port);
  return socket;
}

}  // namespace

StageDoor::StageDoor(wire::Loop& loop, wire::Door door)
    : loop_(loop), door_(std::move(door)), listener_(listen_on_loopback(port_)) {
  connections_ = loop_.on_readable(listener_.get(), [this] { accept(); });
}

StageDoor::Entry StageDoor::enter(int number, const Line::Greeting& greeting, Callbacks callbacks) {
  greeting_ = greeting;
  generations_[number] = std::move(callbacks);
  return {*this, number};
}

void StageDoor::accept() {
  std::erase_if(lines_, [](const std::unique_ptr<Line>& line) { return !line || line->ended(); });
  wire::Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  ++count_;
  const auto changed = [this] {
    loop_.defer([this] {  // the line that calls this may be moved
      seat();
      loop_.stop();
    });
    for (const auto& [number, generation] : generations_) generation.came();
    loop_.stop();
  };
  lines_.push_back(std::make_unique<Line>(loop_, std::move(socket), door_, greeting_, changed));
}

// A hello says whose line it is.
void StageDoor::seat() {
  for (std::unique_ptr<Line>& line : lines_) {
    if (!line || line->frames.empty()) continue;
    const wire::Frame frame = line->frames.front();
    try {
      if (frame.type != wire::Hello::type) throw Error("`" + frame.type + "` comes before `hello`");
      const wire::WorkerHello worker = wire::read_hello(frame);
      const auto at = generations_.find(worker.hello.generation);
      if (at == generations_.end()) throw Error("hello.generation: there is no such generation");
      line->frames.pop_front();
      at->second.adopt(std::move(line), worker);
    } catch (const Error& error) {
      for (const auto& [number, generation] : generations_) generation.broken(error.what());
      if (line) line->close();  // adopt() may have taken it, and closed it
    }
  }
}

}  // namespace espalier::launcher::conform
