#include "launcher/world/server/rank_output.hpp"

#include <fcntl.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
constexpr std::size_t kBlock = 32 << 10;
constexpr int kMostBlocks = 64;  // more than a full pipe holds
}  // namespace

RankOutput::RankOutput(wire::Loop& loop, bool terminal, std::function<void(std::string)> take)
    : loop_(loop), take_(std::move(take)) {
  int ends[2] = {-1, -1};
  termios raw{};
  ::cfmakeraw(&raw);
  if (!terminal || ::openpty(&ends[0], &ends[1], nullptr, &raw, nullptr) != 0)
    if (::pipe(ends) != 0) throw Error(std::string("rank: no pipe for its output: ") + std::strerror(errno));
  reader_.reset(ends[0]);
  writer_.reset(ends[1]);
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  ::fcntl(reader_.get(), F_SETFL, ::fcntl(reader_.get(), F_GETFL) | O_NONBLOCK);
  pause(false);
}

void RankOutput::pause(bool paused) {
  if (paused || !reader_) return readable_.reset();
  if (!readable_) readable_ = loop_.on_readable(reader_.get(), [this] { read(); });
}

void RankOutput::read() {
  char block[kBlock];
  const ssize_t count = ::read(reader_.get(), block, sizeof block);
  if (count > 0) return take_(std::string(block, static_cast<std::size_t>(count)));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  readable_.reset();  // all that had the writing end have closed it
  reader_.reset();
}

void RankOutput::drain() {
  char block[kBlock];
  for (int blocks = 0; reader_ && blocks < kMostBlocks; ++blocks) {
    const ssize_t count = ::read(reader_.get(), block, sizeof block);
    if (count <= 0) return;
    take_(std::string(block, static_cast<std::size_t>(count)));
  }
}

}  // namespace espalier::launcher
