#include "torchrt/control.hpp"

#include "planner/wire/progress_field.hpp"
#include "torchrt/first_contact.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace espalier::torchrt {

namespace {

constexpr Control::Milliseconds kConnect{10'000};
constexpr std::chrono::milliseconds kTries{60'000}, kPause{100};

// Workers that were dropped in one moment do not come back in one moment.
FirstContact contact_of(int rank) { return {kTries, kPause * (1 + rank % 16)}; }
// The main thread gets this long to read a last `exit` that came just before the end of the stream.
constexpr int kLastWordsMs = 300;

}  // namespace

Control::Control(wire::Caller caller, const std::string& host, std::uint16_t port, int rank, Milliseconds heartbeat)
    : client_(make_contact([&] { return wire::Client::tcp(caller, host, port, kConnect); }, contact_of(rank))),
      rank_(rank),
      heartbeat_(heartbeat),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  watcher_ = std::thread([this] { watch(); });
}

Control::~Control() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  watcher_.join();
}

void Control::watch() {
  pollfd waits[2] = {{client_.fd(), POLLRDHUP, 0}, {stop_.get(), POLLIN, 0}};
  const int limit = heartbeat_.count() > 0 ? static_cast<int>(heartbeat_.count()) : -1;
  for (int events = 0; (events = ::poll(waits, 2, limit)) <= 0;)
    if (events == 0) beat();
  if (waits[1].revents != 0) return;
  pollfd stop = waits[1];
  if (::poll(&stop, 1, kLastWordsMs) > 0 || leaving_) return;
  std::fprintf(stderr, "espalier: train: rank %d: the launcher is gone; leaving\n", rank_);
  ::_exit(1);  // the main thread may wait for ever for ranks that are gone
}

void Control::beat() {
  if (!introduced_) return;
  try {
    send(wire::Heartbeat{});
  } catch (const Error&) {  // the main thread's poll() will report it
  }
}

void Control::progress() {
  const auto now = std::chrono::steady_clock::now();
  if (heartbeat_.count() <= 0 || now - progress_told_ < heartbeat_) return;
  progress_told_ = now;
  const std::lock_guard lock(sending_);
  client_.send(wire::heartbeat_with_progress());
}

wire::Frame Control::next(const std::string& what, wire::AwakeLimit& limit) {
  std::optional<wire::Frame> frame;
  while (!frame && !limit.over()) {
    frame = client_.receive(limit.begin_look(std::chrono::steady_clock::now()));
    limit.end_look(std::chrono::steady_clock::now());
  }
  if (!frame)
    throw Error("launcher: no `" + what + "` within " + std::to_string((limit.time().count() + 500) / 1000) +
                " s; see its log");
  if (frame->type == wire::Exit::type) throw LeaveNow{};
  return *frame;
}

std::optional<wire::Frame> Control::poll() {
  std::optional<wire::Frame> frame = client_.receive(Milliseconds(0));
  if (frame && frame->type == wire::Exit::type) throw LeaveNow{};
  return frame;
}

void Control::unexpected(const std::string& got, const std::string& wanted) {
  throw Error("launcher: sent `" + got + "` instead of `" + wanted +
              "`; launcher and worker are of different versions");
}

}  // namespace espalier::torchrt
