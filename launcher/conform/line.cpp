#include "launcher/conform/line.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

#include "planner/core/error.hpp"

namespace espalier::launcher::conform {

Line::Line(wire::Loop& loop, wire::Descriptor socket, const wire::Door& door, Greeting greeting,
           std::function<void()> on_change)
    : loop_(loop),
      socket_(std::move(socket)),
      login_(socket_, door),
      greeting_(std::move(greeting)),
      on_change_(std::move(on_change)) {
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval limit{5, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  read(true);
  greeting_.opening(*this);
}

void Line::read(bool wanted) {
  if (!wanted) readable_.reset();
  else if (socket_) readable_ = loop_.on_readable(socket_.get(), [this] { take(); });
}

void Line::welcome() {
  welcome(login_.credential());
  framing_.protect(login_.keys(), wire::Side::server);
  logged_in_ = true;
}

void Line::welcome(const std::string& credential) { send(wire::Frame{"welcome", {{"credential", credential}}}); }

void Line::send_bytes(const std::string& bytes) {
  for (std::size_t done = 0; socket_ && done < bytes.size();) {
    const ssize_t count = ::send(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the reader sees the end
    done += static_cast<std::size_t>(count);
  }
}

void Line::send_byte_by_byte(const wire::Frame& frame) {
  for (const char byte : framing_.encode(frame)) {
    send_bytes(std::string(1, byte));
    ::usleep(200);  // so that the bytes arrive one by one
  }
}

void Line::close() {
  readable_.reset();
  socket_.reset();
}

void Line::take() {
  char buffer[1 << 16];
  const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    close();
    return on_change_();
  }
  said_anything_ = true;
  input_.append(buffer, static_cast<std::size_t>(count));
  try {
    wire::Frame frame;
    while (socket_) {
      const auto used = framing_.decode(input_, frame, logged_in_ ? wire::kMaxFrame : wire::kMaxStranger);
      if (!used) break;
      input_.erase(0, *used);
      handle(std::move(frame));
      frame = {};
    }
  } catch (const Error& error) {
    nonsense_ = error.what();
    close();
  }
  on_change_();
}

void Line::handle(wire::Frame frame) {
  if (logged_in_) return frames.push_back(std::move(frame));
  login_.take(frame);
  greeting_.answer(*this);
}

}  // namespace espalier::launcher::conform
