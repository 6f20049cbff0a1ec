#include "launcher/profile/stage_run.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {
namespace {

constexpr std::size_t kMostText = 8 << 20;

// Gone with the last process that has it open.
wire::Descriptor in_memory(const std::string& text) {
  wire::Descriptor file(::memfd_create("espalier-plan", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Error(std::string("profile: the plan cannot be kept in memory: ") + std::strerror(errno));
  return file;
}

}  // namespace

StageRun::StageRun(wire::Loop& loop, std::vector<std::string> program, const std::string& plan, int stage, int replica,
                   std::function<void(std::optional<Json>)> done)
    : done_(std::move(done)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(program.front() + ": no pipe: " + std::strerror(errno));
  wire::Descriptor reader(ends[0]), writer(ends[1]);
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  const wire::Descriptor file = in_memory(plan);
  for (const std::string& word :
       {std::string("--profile-plan"), "/proc/self/fd/" + std::to_string(file.get()), std::string("--stage"),
        std::to_string(stage), std::string("--replica"), std::to_string(replica)})
    program.push_back(word);
  Child::Traits traits;
  traits.output = writer.get();
  traits.inherited = file.get();
  child_ = std::make_unique<Child>(loop, program, clean_environment({}), traits, [this](int status) {
    status_ = status;
    if (output_ < 0) finish();
  });
  output_ = reader.release();
  readable_ = loop.on_readable(output_, [this] { read(); });
}

StageRun::~StageRun() {
  readable_.reset();
  if (output_ >= 0) ::close(output_);
}

void StageRun::read() {
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(output_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0 && text_.size() + static_cast<std::size_t>(got) <= kMostText) {
      text_.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    if (got > 0) text_.clear();
    readable_.reset();
    ::close(output_);
    output_ = -1;
    if (got > 0) child_->signal(SIGKILL);
    if (status_) finish();
    return;
  }
}

void StageRun::finish() {
  if (!done_) return;
  std::optional<Json> profile;
  if (*status_ == 0) try {
      profile = Json::parse(text_);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "espalier: profile: what the program printed is no profile: %s\n", error.what());
    }
  else std::fprintf(stderr, "espalier: profile: the program ended with exit code %d\n", exit_code(*status_));
  std::exchange(done_, nullptr)(std::move(profile));
}

}  // namespace espalier::launcher
