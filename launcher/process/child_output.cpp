#include "launcher/process/child_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

ChildOutput::ChildOutput(wire::Loop& loop, const std::vector<std::string>& program,
                         const std::vector<std::string>& environment, Child::Traits traits, std::size_t most,
                         wire::Loop::Milliseconds limit, Done done)
    : loop_(loop), most_(most), done_(std::move(done)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(program.front() + ": no pipe: " + std::strerror(errno));
  wire::Descriptor reader(ends[0]), writer(ends[1]);
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  traits.output = writer.get();
  child_ = std::make_unique<Child>(loop, program, environment, std::move(traits), [this](int status) {
    status_ = status;
    end_if_over();
  });
  output_ = reader.release();
  readable_ = loop.on_readable(output_, [this] { read(); });
  limit_ = loop.after(limit, [this] { give_up(); });
}

ChildOutput::~ChildOutput() {
  readable_.reset();
  if (output_ >= 0) ::close(output_);
}

void ChildOutput::read() {
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(output_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0 && text_.size() + static_cast<std::size_t>(got) > most_) return give_up();
    if (got > 0) {
      text_.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    readable_.reset();
    ::close(std::exchange(output_, -1));
    return end_if_over();
  }
}

void ChildOutput::give_up() {
  given_up_ = true;
  readable_.reset();
  if (output_ >= 0) ::close(std::exchange(output_, -1));
  child_->signal(SIGKILL);
  end_if_over();
}

void ChildOutput::end_if_over() {
  if (output_ >= 0 || !status_) return;
  limit_.reset();
  over_ = loop_.after(wire::Loop::Milliseconds(0), [this] {
    if (!done_) return;
    auto text = given_up_ ? std::nullopt : std::optional(std::move(text_));
    std::exchange(done_, nullptr)(std::move(text), *status_);
  });
}

}  // namespace espalier::launcher
